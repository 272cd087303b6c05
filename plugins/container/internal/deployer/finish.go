package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// forceCleanup is the annotation for the deletion of an item without a run of its image.
const forceCleanup = pod.ForceCleanupAnnotation

// maxListed bounds the objects named in a message.
const maxListed = 5

// clear removes the objects of the run noted last, after its outcome: all but its result, and the state for the next
// one. It selects them by the name of this run, so a late call does no harm to another run.
func (j *podJob) clear(ctx context.Context) error {
	r := j.status.Run
	if r.Cleared {
		return nil
	}
	at, err := j.at(ctx, r.Place)
	if err != nil {
		return err
	}
	// At the same time: the user waits for it.
	var removals errgroup.Group
	removals.Go(func() error { return j.clearPod(ctx, at) })
	removals.Go(func() error { return at.RemoveRights(ctx, pod.OfRun(j.identity.UID, r.Name)) })
	removals.Go(func() error { return at.DiscardPods(ctx, pod.KeptPods(j.identity.UID, r.Name)) })
	for _, selector := range pod.Obsolete(j.identity.UID, r, j.status.State) {
		removals.Go(func() error { return at.RemoveSecrets(ctx, selector) })
	}
	if old := r.Restored; old != nil && old.Place != r.Place && old.ID != "" {
		removals.Go(func() error { return j.removeState(ctx, old) })
	}
	if err := removals.Wait(); err != nil {
		return j.explain(r.Place, stepRemove, err)
	}
	r.Cleared, r.RenewAccess = true, nil
	return nil
}

// removeState removes a state in another place, replaced by another state or by none.
func (j *podJob) removeState(ctx context.Context, s *v1alpha1.State) error {
	if j.status.State != nil && j.status.State.Place == s.Place {
		return nil // there was no other
	}
	at, err := j.at(ctx, s.Place)
	if err != nil {
		return j.leftBehind(s.Place, err)
	}
	return at.RemoveSecrets(ctx, pod.StateOf(j.identity.UID, s.ID))
}

// clearPod releases the Pod, and removes it unless the operator wants to inspect it.
func (j *podJob) clearPod(ctx context.Context, at *pod.Cluster) error {
	p, err := j.ownPod(ctx, at)
	if err != nil || p == nil {
		return err
	}
	// A Pod not yet stopped might still start.
	if j.deployer.settings.Debug.KeepPod && p.DeletionTimestamp == nil && pod.Stopped(p, j.now()) {
		return at.Keep(ctx, p)
	}
	return at.Discard(ctx, p)
}

// exports returns the exports of the run noted last; it has succeeded.
func (j *podJob) exports(ctx context.Context) (map[string]any, error) {
	if j.result == nil {
		at, err := j.at(ctx, j.status.Run.Place)
		if err != nil {
			return nil, err
		}
		if j.result, err = at.Result(ctx, j.status.Run.Name); err != nil {
			return nil, j.explain(j.status.Run.Place, stepExport, err)
		}
	}
	if j.result.Report == nil {
		return nil, noRetry(stepExport, reasonExports, fmt.Errorf(
			"the exports of the Pod are not in Secret %s/%s any more; somebody has deleted it; start another job",
			j.status.Run.Namespace, j.result.Secret))
	}
	return readExports(j.result.Exports)
}

// noRetry returns an error for the end of the job: another try would have the same result, or repeat something.
func noRetry(step, reason string, err error) error {
	return &sdk.Error{Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry}, Operation: step, Reason: reason, Err: err}
}

// removeAll removes everything of the item, and waits until it is gone.
func (j *podJob) removeAll(ctx context.Context) (*sdk.Response, error) {
	places, err := j.places()
	if err != nil {
		return j.end(), err
	}
	all := pod.OfItem(j.identity.UID)
	for _, place := range places {
		at, err := j.at(ctx, place)
		if errors.Is(err, errElsewhere) {
			_ = j.leftBehind(place, err)
			continue
		}
		if err != nil {
			return j.end(), err
		}
		left, err := removeAt(ctx, at, all)
		if err == nil && len(left) == 0 {
			// Landscaper, too, removes a state with its item: the next item of the same name must not begin with it.
			err = at.RemoveSecrets(ctx, j.identity.LeftByUpstream())
		}
		if err != nil {
			return j.end(), j.explain(place, stepRemove, err)
		}
		if names := left.Names(); len(names) > 0 {
			j.deployer.watches.Follow(j.name(), at.FollowPods(left))
			res := sdk.WaitFor(object.Enumerate(names, ", ", maxListed)+" to be gone", removalPoll)
			res.ProviderStatus = j.status
			return res, nil
		}
	}
	return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
}

// removeAt removes the selected objects, and returns the remaining ones. The other objects go after the last Pod,
// perhaps gone meanwhile; hence the second round.
func removeAt(ctx context.Context, at *pod.Cluster, selector pod.Selector) (left pod.Remaining, err error) {
	for range 2 {
		if err := at.Remove(ctx, selector); err != nil {
			return nil, err
		}
		if left, err = at.Remaining(ctx, selector); err != nil || len(left) == 0 || left.HasPods() {
			return left, err
		}
	}
	return left, nil
}

// places returns all places with objects of the item.
func (j *podJob) places() ([]v1alpha1.Place, error) {
	var places []v1alpha1.Place
	if r := j.status.Run; r != nil {
		places = append(places, r.Place)
	}
	if s := j.status.State; s != nil {
		places = append(places, s.Place)
	}
	if j.request.HostCluster != nil {
		namespace, err := j.deployer.namespace(j.request.HostCluster)
		if err != nil {
			return nil, err
		}
		places = append(places, v1alpha1.Place{Namespace: namespace})
	}
	// First the host cluster: authors of Targets cannot take it away.
	slices.SortFunc(places, func(a, b v1alpha1.Place) int {
		return strings.Compare(fmt.Sprint(a.OnTarget, a), fmt.Sprint(b.OnTarget, b))
	})
	return slices.Compact(places), nil
}
