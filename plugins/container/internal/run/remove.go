package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// removalPoll is the interval between looks at objects under deletion: only Pods among them are watched.
const removalPoll = 10 * time.Second

// RemoveAll removes everything of the item, and waits until it is gone.
func (j *Job) RemoveAll(ctx context.Context) (*sdk.Response, error) {
	places, err := j.places()
	if err != nil {
		return j.End(), err
	}
	all := pod.OfItem(j.identity.UID)
	for _, place := range places {
		at, err := j.at(ctx, place)
		if job.IsOtherCluster(err) {
			_ = j.leftBehind(place, err)
			continue
		}
		if err != nil {
			return j.End(), err
		}
		left, err := RemoveAt(ctx, at, all)
		if err == nil && len(left) == 0 {
			// Landscaper, too, removes a state with its item: the next item of the same name must not begin with it.
			err = at.RemoveSecrets(ctx, j.identity.LeftByUpstream())
		}
		if err != nil {
			return j.End(), j.explain(place, stepRemove, err)
		}
		if names := left.Names(); len(names) > 0 {
			what := object.Enumerate(names, ", ", job.MaxListed) + " to be gone"
			return j.Wait(what, removalPoll, at.FollowPods(left)), nil
		}
	}
	return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
}

// RemoveAt removes the selected objects, and returns the remaining ones. The other objects go after the last Pod,
// perhaps gone meanwhile; hence the second round.
func RemoveAt(ctx context.Context, at *pod.Cluster, selector pod.Selector) (left pod.Remaining, err error) {
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
func (j *Job) places() ([]v1alpha1.Place, error) {
	var places []v1alpha1.Place
	if r := j.status.Run; r != nil {
		places = append(places, r.Place)
	}
	if s := j.status.State; s != nil {
		places = append(places, s.Place)
	}
	if j.Request.HostCluster != nil {
		namespace, err := j.runner.namespace(j.Request.HostCluster)
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
