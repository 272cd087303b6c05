package run

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/container/internal/report"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// conclude removes the objects of the run noted last, and returns its error.
func (j *Job) conclude(ctx context.Context) (*sdk.Response, error) {
	if err := j.clear(ctx); err != nil {
		return j.End(), err
	}
	r := j.status.Run
	if r.Outcome == v1alpha1.OutcomeSucceeded {
		return nil, nil //nolint:nilnil // see Job
	}
	return j.End(), &sdk.Error{Codes: r.Codes, Operation: stepRun, Reason: r.Reason, Err: errors.New(r.Message)}
}

// noteGone notes the outcome of a run with a vanished Pod: its finalizer was removed by another client.
func (j *Job) noteGone(ctx context.Context, at *pod.Cluster) error {
	r := j.status.Run
	result, err := at.Result(ctx, r.Name)
	if err != nil {
		return j.explain(r.Place, stepRun, err)
	}
	j.keepState(nil, result, withheld)
	failure := givenUp(r)
	if failure == nil {
		failure = pod.Gone(r.Namespace, r.Name)
	}
	return j.note(ctx, v1alpha1.OutcomeFailed, j.withLoss(failure))
}

// givenUp returns the reason for the stop of a run's Pod; nil for none.
func givenUp(r *v1alpha1.Run) *pod.Failure {
	if r.Reason == "" {
		return nil
	}
	return &pod.Failure{Reason: r.Reason, Message: r.Message, Codes: r.Codes}
}

// clear removes the objects of the run noted last, after its outcome: all but its result, and the state for the next
// one. It selects them by the name of this run, so a late call does no harm to another run.
func (j *Job) clear(ctx context.Context) error {
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
func (j *Job) removeState(ctx context.Context, s *v1alpha1.State) error {
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
func (j *Job) clearPod(ctx context.Context, at *pod.Cluster) error {
	p, err := j.ownPod(ctx, at)
	if err != nil || p == nil {
		return err
	}
	// A Pod not yet stopped might still start.
	if j.runner.Settings.Debug.KeepPod && p.DeletionTimestamp == nil && pod.Stopped(p, j.now()) {
		return at.Keep(ctx, p)
	}
	return at.Discard(ctx, p)
}

// Exports returns the exports of the run noted last; it has succeeded.
func (j *Job) Exports(ctx context.Context) (map[string]any, error) {
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
		return nil, noRetry(stepExport, report.ReasonExports, fmt.Errorf(
			"the Secret %s/%s with the exports of the Pod was deleted; start another job",
			j.status.Run.Namespace, j.result.Secret))
	}
	return report.Exports(j.result.Exports)
}
