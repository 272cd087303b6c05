package deployer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

const (
	// reasonStateLost is given to the error about a state of which something is missing.
	reasonStateLost = "StateLost"
	// reasonStateTooLarge is given to the error about a state for which the limit has become too low.
	reasonStateTooLarge = "StateTooLarge"
)

// keepState takes what the run has left as the state for the next one, or notes that it is lost. p is nil if the Pod is
// gone, and hide hides in the reason what the container was given.
func (j *podJob) keepState(p *corev1.Pod, result *pod.Result, hide func(string) string) {
	report, r := result.Report, j.status.Run
	if why := pod.StateLost(p, report, r); why != "" {
		j.status.StateLost = &v1alpha1.StateLoss{Run: r.Name, Why: hide(why)}
	}
	if report == nil || report.StateFailed {
		return
	}
	j.status.State, j.status.StateLost = nil, nil
	if report.StateChunks > 0 {
		j.status.State = &v1alpha1.State{Place: r.Place, ID: r.Name, Chunks: report.StateChunks}
	}
}

// withheld takes the place of a reason where it is not known what the container was given.
func withheld(string) string { return "what it has left could not be kept" }

// withLoss adds to the failure of the run that was noted last that its state is lost, if it is; nil for nil.
func (j *podJob) withLoss(failure *pod.Failure) *pod.Failure {
	lost := j.status.StateLost
	if failure == nil || lost == nil || lost.Run != j.status.Run.Name {
		return failure
	}
	out, why := *failure, ""
	if !strings.Contains(out.Message, lost.Why) {
		why = " (" + lost.Why + ")"
	}
	out.Message += fmt.Sprintf("; its state is lost%s: "+
		"no other job runs the image before the deploy item has the annotation %s: %q",
		why, pod.AcceptLossAnnotation, lost.Run)
	return &out
}

// checkLoss refuses to begin with a state that is older than what was done, unless the deploy item accepts that.
func (j *podJob) checkLoss() error {
	lost := j.status.StateLost
	if lost == nil || j.request.DeployItem.Annotations[pod.AcceptLossAnnotation] == lost.Run {
		return nil
	}
	begins := "with the older state"
	if j.status.State == nil {
		begins = "without any state"
	}
	return stateLost("the state that run %s has left is lost (%s), and the image might repeat what was done in it; "+
		"to run it nevertheless, beginning %s, annotate the deploy item with %s: %q and start another job",
		lost.Run, lost.Why, begins, pod.AcceptLossAnnotation, lost.Run)
}

// restored returns the state that the run begins with; nil for none.
func (j *podJob) restored(ctx context.Context, at *pod.Cluster) (*v1alpha1.State, error) {
	if j.begun() {
		return j.status.Run.Restored, nil
	}
	if err := j.checkLoss(); err != nil {
		return nil, err
	}
	state, err := j.lastState(ctx, at)
	if err != nil || state == nil {
		return nil, err
	}
	// Main would add to what cannot be kept as it is.
	if found, limit := len(pod.StateNames(state)), len(j.upload().State); found > limit {
		return nil, &sdk.Error{Operation: stepStart, Reason: reasonStateTooLarge, Err: fmt.Errorf(
			"the state of the last run is in %d Secrets of %d bytes, but limits.state allows %d; "+
				"the operator raises limits.state in the plugin's configuration", found, layout.ChunkBytes, limit)}
	}
	return state, nil
}

// lastState returns the state of the last run; nil for none. The first run of all begins with one that Landscaper has
// left.
func (j *podJob) lastState(ctx context.Context, at *pod.Cluster) (*v1alpha1.State, error) {
	if j.status.Run != nil {
		return j.status.State, nil
	}
	state, err := at.UpstreamState(ctx, j.identity)
	if errors.Is(err, pod.ErrStateIncomplete) {
		return nil, stateLost("what Landscaper has left of the deploy item in namespace %s: %w; "+
			"restore it, or delete it to begin without, and start another job", j.place.Namespace, err)
	}
	if state != nil {
		state.Place = j.place
	}
	return state, j.explain(j.place, stepStart, err)
}

// oldState returns the names of the Secrets with a state; none for nil. If they are somewhere else than the Pod will
// be, copied are copies of them, and the names those of the copies.
func (j *podJob) oldState(ctx context.Context, state *v1alpha1.State) (names []string, copied []pod.Object, err error) {
	if state == nil {
		return nil, nil, nil
	}
	names = pod.StateNames(state)
	at, err := j.at(ctx, state.Place)
	if err != nil {
		return nil, nil, err
	}
	missing, err := at.MissingSecrets(ctx, names, j.identity.SecretsOf(state))
	if err == nil && len(missing) > 0 {
		return nil, nil, stateLost("the state of the last run is not complete: in namespace %s there is no Secret %s "+
			"with the labels of the state; restore it and start another job, or create the deploy item anew",
			state.Namespace, strings.Join(missing, ", "))
	}
	if err != nil || state.Place == j.place {
		return names, nil, j.explain(state.Place, stepStart, err)
	}
	chunks, err := at.Chunks(ctx, names)
	if err != nil {
		return nil, nil, j.explain(state.Place, stepStart, err)
	}
	copied, names = j.identity.OldState(chunks), nil
	for _, secret := range copied {
		names = append(names, secret.GetName())
	}
	return names, copied, nil
}

// stateLost ends the job: an image that finds no state may do everything once more that it has done before.
func stateLost(format string, args ...any) error {
	return noRetry(stepStart, reasonStateLost, fmt.Errorf(format, args...))
}
