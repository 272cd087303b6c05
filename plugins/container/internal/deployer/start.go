package deployer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/cluster"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/plugins/container/internal/settings"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// reasonNoHelper is given to the error about a plugin whose configuration has no image for its own containers.
	reasonNoHelper = "HelperImageMissing"
	// reasonStateLost is given to the error about a state of which something is missing.
	reasonStateLost = "StateLost"
	// reasonTemplate is given to the error about a podTemplate that does not fit.
	reasonTemplate = "PodTemplateInvalid"

	// mostSlack is how long before the end of its job a Pod is stopped at most, so that there is time to find out what has become of it.
	mostSlack  = 30 * time.Second
	slackShare = 5
	// endlessToken is how long the token of a job without a timeout is asked to live. It is renewed at half of its life.
	endlessToken = 24 * time.Hour
	// tokenSlack is for how long the token of a job outlives it: a Pod has some time to end.
	tokenSlack = 15 * time.Minute
)

// start notes the run and creates it. It may have been noted, and created in part, before.
func (j *job) start(ctx context.Context, c *config.Config) (*sdk.Response, error) {
	if err := j.locate(ctx); err != nil {
		return j.end(), err
	}
	at, err := j.at(ctx, j.place)
	if err != nil {
		return j.end(), err
	}
	if j.settings.Init.Image == "" {
		return j.end(), &sdk.Error{Operation: stepStart, Reason: reasonNoHelper, Err: errors.New(
			"this plugin has no image for the containers init and wait; the operator sets initContainer.image in its configuration")}
	}
	j.request.Progress(stepStart, "creating the Pod")
	restored, err := j.restored(ctx, at)
	if err != nil {
		return j.end(), err
	}
	secrets, template, err := j.prepare(ctx, c, restored)
	if err != nil {
		return j.end(), err
	}
	pod, err := j.identity.Pod(template)
	if err != nil {
		return j.end(), &sdk.Error{Operation: stepStart, Reason: reasonTemplate, Err: err}
	}
	if err := j.noteStart(ctx, restored); err != nil {
		return nil, err
	}
	err = at.Create(ctx, &cluster.Objects{
		Result: j.identity.Result(j.place.Namespace), Secrets: secrets,
		ServiceAccount: j.identity.ServiceAccount(j.place.Namespace),
		Role:           j.identity.Role(j.upload()), RoleBinding: j.identity.RoleBinding(j.place.Namespace),
	})
	if err == nil {
		err = j.renewAccess(ctx, at)
	}
	var result *cluster.Result
	if err == nil {
		result, err = at.Result(ctx, pod.Name)
	}
	if err == nil && result.Report != nil {
		// The run is over, though nobody has noted it: the Pod was let go by somebody else.
		if err := j.noteGone(ctx); err != nil {
			return j.end(), err
		}
		return j.conclude(ctx)
	}
	if err == nil {
		pod, err = at.CreatePod(ctx, pod)
	}
	if err != nil {
		return j.startFailed(ctx, j.explain(j.place, stepStart, err))
	}
	j.status.Run.PodUID = pod.UID
	return j.wait(at, pod, result, fmt.Sprintf("Pod %s/%s to start", pod.Namespace, pod.Name), time.Time{}), nil
}

// startFailed ends the run if it will never start; other errors are for another try.
func (j *job) startFailed(ctx context.Context, err error) (*sdk.Response, error) {
	var final *sdk.Error
	if !errors.As(err, &final) || len(final.Codes) == 0 {
		return j.end(), err
	}
	o := outcome{Outcome: v1alpha1.OutcomeFailed, Reason: final.Reason, Message: final.Error(), Codes: final.Codes}
	if err := j.note(ctx, o); err != nil {
		return nil, err
	}
	return j.conclude(ctx)
}

// noteStart saves that there is a run now.
func (j *job) noteStart(ctx context.Context, restored *v1alpha1.State) error {
	if j.begun() {
		return nil
	}
	if err := j.leave(ctx); err != nil {
		return err
	}
	last := ""
	if j.status.PodStatus != nil {
		last = j.status.PodStatus.LastSuccessfulJobID
	}
	name := j.identity.RunName()
	// Until the run has left another one.
	j.status.State = restored
	j.status.LastOperation = j.identity.Operation
	j.status.Run = &v1alpha1.Run{Place: j.place, Name: name, JobID: j.identity.JobID, Operation: j.identity.Operation, Restored: restored}
	j.status.PodStatus = &v1alpha1.PodStatus{PodName: name, LastRun: j.now(), LastSuccessfulJobID: last}
	return j.request.SaveProviderStatus(ctx, j.status)
}

// prepare returns the Secrets that the Pod needs, beside those for its uploads, and what the Pod is made of.
func (j *job) prepare(ctx context.Context, c *config.Config, restored *v1alpha1.State) ([]*corev1.Secret, *run.Template, error) {
	files, err := j.input(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	packed, err := archive.FromFiles(files)
	if err != nil {
		return nil, nil, sdk.ConfigurationError(reasonInput, "spec.config: pack what the container is given: %w", err)
	}
	secrets := j.identity.Inputs(j.place.Namespace, archive.Split(packed))
	t := &run.Template{
		Namespace: j.place.Namespace,
		Image:     c.Image, Command: c.Command, Args: c.Args, Resources: c.Resources,
		NodeSelector: c.NodeSelector, Tolerations: c.Tolerations, ServiceAccountName: c.ServiceAccountName,
		Inputs: len(secrets), Deadline: j.podDeadline(ctx),
		Init: helperOf(j.settings.Init), Wait: helperOf(j.settings.Wait), Overlay: j.settings.PodTemplate,
	}
	state, copied, err := j.oldState(ctx, restored)
	if err != nil {
		return nil, nil, err
	}
	t.OldState, secrets = state, append(secrets, copied...)
	dockerConfig, err := j.pullCredentials(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if dockerConfig != nil {
		t.PullSecrets, secrets = true, append(secrets, j.identity.Pull(j.place.Namespace, dockerConfig))
	}
	return secrets, t, nil
}

func helperOf(c settings.HelperConfiguration) run.Helper {
	return run.Helper{Image: c.Image, Command: c.Command, Args: c.Args, ImagePullPolicy: c.ImagePullPolicy}
}

// podDeadline is how long the Pod may run: a little less than the job; 0 for ever.
func (j *job) podDeadline(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := deadline.Sub(j.options.Now())
	return max(left-min(left/slackShare, mostSlack), time.Second)
}

// leave removes the result of the last run, which nobody needs when there is another job. It is by its name: whoever comes late must not take
// what is not his.
func (j *job) leave(ctx context.Context) error {
	last := j.status.Run
	if last == nil {
		return nil
	}
	at, err := j.at(ctx, last.Place)
	if err != nil {
		return j.leftBehind(last.Place, err)
	}
	return j.explain(last.Place, stepStart, at.RemoveSecrets(ctx, run.ResultOf(j.identity.UID, last.Name)))
}

// restored returns the state that the run begins with; nil for none. The first run of all begins with one that Landscaper has left.
func (j *job) restored(ctx context.Context, at *cluster.Cluster) (*v1alpha1.State, error) {
	switch {
	case j.begun():
		return j.status.Run.Restored, nil
	case j.status.Run != nil:
		return j.status.State, nil
	}
	state, err := at.UpstreamState(ctx, j.identity)
	if errors.Is(err, cluster.ErrStateIncomplete) {
		return nil, &sdk.Error{
			Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry}, Operation: stepStart, Reason: reasonStateLost, Err: fmt.Errorf(
				"what Landscaper has left of the deploy item in namespace %s: %w; restore it, or delete it to begin without, and start another job", j.place.Namespace, err),
		}
	}
	if err != nil {
		return nil, j.explain(j.place, stepStart, err)
	}
	if state != nil {
		state.Place = j.place
	}
	return state, nil
}

// oldState returns the names of the Secrets with a state; none for nil. If they are somewhere else than the Pod will be, copied are copies of
// them, and the names those of the copies.
func (j *job) oldState(ctx context.Context, state *v1alpha1.State) (names []string, copied []*corev1.Secret, err error) {
	if state == nil {
		return nil, nil, nil
	}
	names = run.StateNames(state)
	at, err := j.at(ctx, state.Place)
	if err != nil {
		return nil, nil, err
	}
	missing, err := at.MissingSecrets(ctx, names, j.identity.SecretsOf(state))
	if err != nil {
		return nil, nil, j.explain(state.Place, stepStart, err)
	}
	if len(missing) > 0 {
		return nil, nil, stateLost(state.Place, missing)
	}
	if state.Place == j.place {
		return names, nil, nil
	}
	chunks, err := at.Chunks(ctx, names)
	if err != nil {
		return nil, nil, j.explain(state.Place, stepStart, err)
	}
	copied = j.identity.OldState(j.place.Namespace, chunks)
	names = make([]string, 0, len(copied))
	for _, secret := range copied {
		names = append(names, secret.Name)
	}
	return names, copied, nil
}

// stateLost ends the job: an image that finds no state may do everything once more that it has done before.
func stateLost(place v1alpha1.Place, missing []string) error {
	return &sdk.Error{
		Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry}, Operation: stepStart, Reason: reasonStateLost, Err: fmt.Errorf(
			"the state of the last run is not complete: in namespace %s there is no Secret %s with the labels of the state; "+
				"restore it and start another job, or create the deploy item anew", place.Namespace, strings.Join(missing, ", ")),
	}
}

// upload is what the wait container of the run is to upload.
func (j *job) upload() *layout.Upload {
	return j.identity.Upload(j.status.Run.Namespace, j.settings.StateBytes, j.settings.ExportBytes)
}

// renewAt is when the wait container needs another token; zero if it has none.
func (j *job) renewAt() time.Time {
	if r := j.status.Run; r != nil && r.RenewAccess != nil && r.Outcome == "" {
		return r.RenewAccess.Time
	}
	return time.Time{}
}

// renewAccess gives the wait container a token if it has none, or one of which half of its life is over.
func (j *job) renewAccess(ctx context.Context, at *cluster.Cluster) error {
	now := j.options.Now()
	if due := j.renewAt(); !due.IsZero() && now.Before(due) {
		return nil
	}
	lifetime := endlessToken
	if deadline, ok := ctx.Deadline(); ok {
		lifetime = deadline.Sub(now) + tokenSlack
	}
	r := j.status.Run
	token, ends, err := at.Token(ctx, r.Name, lifetime)
	if err != nil {
		return err
	}
	if err := j.giveAccess(ctx, at, token); err != nil {
		return err
	}
	renew := metav1.NewTime(now.Add(ends.Sub(now) / 2))
	r.RenewAccess = &renew
	return nil
}

// giveAccess puts a token where the wait container finds it. What that may upload stays as it was when the Pod was created, whatever the limits
// are now: its Role is for that.
func (j *job) giveAccess(ctx context.Context, at *cluster.Cluster, token string) error {
	r := j.status.Run
	if r.RenewAccess != nil {
		return at.ReplaceToken(ctx, run.AccessName(r.Name), token)
	}
	access, err := j.identity.Access(j.upload(), token)
	if err != nil {
		return err
	}
	return at.ApplySecrets(ctx, access)
}
