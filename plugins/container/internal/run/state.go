package run

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
	// reasonStateLost is the reason of the error about an incomplete or lost state.
	reasonStateLost = "StateLost"
	// reasonStateTooLarge is the reason of the error about a state above the present limit.
	reasonStateTooLarge = "StateTooLarge"
)

// keepState takes the uploaded state of the run for the next one, or notes its loss. p is nil for a deleted Pod, and
// hide removes the container's input from the reason.
func (j *Job) keepState(p *corev1.Pod, result *pod.Result, hide func(string) string) {
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

// withheld replaces a reason where the container's input is not known.
func withheld(string) string { return "its results could not be kept" }

// withLoss adds the loss of the state, if there is one, to the failure of the run noted last; nil for nil.
func (j *Job) withLoss(failure *pod.Failure) *pod.Failure {
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

// checkLoss refuses a start with a state older than the lost one, unless the item accepts it.
func (j *Job) checkLoss() error {
	lost := j.status.StateLost
	if lost == nil || j.Request.DeployItem.Annotations[pod.AcceptLossAnnotation] == lost.Run {
		return nil
	}
	begins := "with the older state"
	if j.status.State == nil {
		begins = "without any state"
	}
	return stateLost("the state of run %s is lost (%s), and the image might repeat the work of that run; "+
		"to run it nevertheless, beginning %s, annotate the deploy item with %s: %q and start another job",
		lost.Run, lost.Why, begins, pod.AcceptLossAnnotation, lost.Run)
}

// restored returns the state for the start of the run; nil for none.
func (j *Job) restored(ctx context.Context, at *pod.Cluster) (*v1alpha1.State, error) {
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
	// Main would add to a state already too large to keep.
	if found, limit := len(pod.StateNames(state)), len(j.upload().State); found > limit {
		return nil, &sdk.Error{Operation: stepStart, Reason: reasonStateTooLarge, Err: fmt.Errorf(
			"the state of the last run is in %d Secrets of %d bytes, but limits.state allows %d; "+
				"the operator raises limits.state in the plugin's configuration", found, layout.ChunkBytes, limit)}
	}
	return state, nil
}

// lastState returns the state of the last run; nil for none. The first run of all begins with Landscaper's state.
func (j *Job) lastState(ctx context.Context, at *pod.Cluster) (*v1alpha1.State, error) {
	if j.status.Run != nil {
		return j.status.State, nil
	}
	state, err := at.UpstreamState(ctx, j.identity)
	if errors.Is(err, pod.ErrStateIncomplete) {
		return nil, stateLost("Landscaper's state of the deploy item in namespace %s: %w; "+
			"restore it, or delete it to begin without, and start another job", j.place.Namespace, err)
	}
	if state != nil {
		state.Place = j.place
	}
	return state, j.explain(j.place, stepStart, err)
}

// oldState returns the names of the Secrets with a state; none for nil. With a state in another place than the Pod's,
// it returns copies of the Secrets and their names.
func (j *Job) oldState(ctx context.Context, state *v1alpha1.State) (names []string, copied []pod.Object, err error) {
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

// stateLost returns an error for the end of the job: an image without its state may repeat everything done before.
func stateLost(format string, args ...any) error {
	return noRetry(stepStart, reasonStateLost, fmt.Errorf(format, args...))
}
