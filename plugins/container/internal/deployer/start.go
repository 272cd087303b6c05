package deployer

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

const (
	// reasonNoHelper is the reason of the error about a plugin without a configured image for its own containers.
	reasonNoHelper = "HelperImageMissing"
	// reasonOutliving is the reason of the warning about containers of a Pod still running after the end of main.
	reasonOutliving = "ContainersGoOn"
	// reasonTemplate is the reason of the error about an unfit podTemplate.
	reasonTemplate = "PodTemplateInvalid"

	// maxSlack is the most time between the end of a Pod and the end of its job, to find out the outcome.
	maxSlack   = 30 * time.Second
	slackShare = 5
	// endlessToken is the requested lifetime of the token of a job without a timeout. It is renewed at half of its life.
	endlessToken = 24 * time.Hour
	// tokenSlack is the lifetime of a token after the end of its job: a Pod has some time to end.
	tokenSlack = 15 * time.Minute
)

// start notes the run and creates it. Both may have been done in part before.
func (j *podJob) start(ctx context.Context, c *config.Config) (*sdk.Response, error) {
	if err := j.locate(ctx); err != nil {
		return j.end(), err
	}
	at, err := j.at(ctx, j.place)
	if err != nil {
		return j.end(), err
	}
	if j.deployer.settings.InitContainer.Image == "" {
		return j.end(), &sdk.Error{Operation: stepStart, Reason: reasonNoHelper, Err: errors.New(
			"this plugin has no image for the containers init and wait; " +
				"the operator sets initContainer.image in its configuration")}
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
	p, err := j.identity.Pod(template)
	if err != nil {
		return j.end(), &sdk.Error{Operation: stepStart, Reason: reasonTemplate, Err: err}
	}
	if err := j.noteStart(ctx, restored); err != nil {
		return nil, err
	}
	var result *pod.Result
	err = at.Create(ctx, j.identity, j.upload(), secrets)
	if err == nil {
		err = j.renewAccess(ctx, at)
	}
	if err == nil {
		result, err = at.Result(ctx, p.Name)
	}
	if err == nil && result.Report != nil {
		// The run is over but not noted: the Pod was released by another client.
		if err := j.noteGone(ctx, at); err != nil {
			return j.end(), err
		}
		return j.conclude(ctx)
	}
	if err == nil {
		p, err = at.CreatePod(ctx, p)
	}
	if err != nil {
		return j.startFailed(ctx, j.explain(j.place, stepStart, err))
	}
	j.status.Run.PodUID = p.UID
	return j.wait(at, p, result, fmt.Sprintf("Pod %s/%s to start", p.Namespace, p.Name), time.Time{}), nil
}

// startFailed ends the run after a final error; other errors are for another try.
func (j *podJob) startFailed(ctx context.Context, err error) (*sdk.Response, error) {
	final, ok := errors.AsType[*sdk.Error](err)
	if !ok || len(final.Codes) == 0 {
		return j.end(), err
	}
	failure := &pod.Failure{Reason: final.Reason, Message: final.Error(), Codes: final.Codes}
	if err := j.note(ctx, v1alpha1.OutcomeFailed, failure); err != nil {
		return nil, err
	}
	return j.conclude(ctx)
}

// noteStart saves the run as begun, and removes the result of the last run, no longer needed in another job. The
// removal is by the name of the last run: a late call must not remove another run's result.
func (j *podJob) noteStart(ctx context.Context, restored *v1alpha1.State) error {
	if j.begun() {
		return nil
	}
	if last := j.status.Run; last != nil {
		at, err := j.at(ctx, last.Place)
		if err == nil {
			err = j.explain(last.Place, stepStart, at.RemoveSecrets(ctx, pod.ResultOf(j.identity.UID, last.Name)))
		}
		if err := j.leftBehind(last.Place, err); err != nil {
			return err
		}
	}
	succeeded := ""
	if j.status.PodStatus != nil {
		succeeded = j.status.PodStatus.LastSuccessfulJobID
	}
	name := j.identity.RunName()
	// Until the run has left another one.
	j.status.State = restored
	j.status.LastOperation = j.identity.Operation
	j.status.Run = &v1alpha1.Run{
		Place: j.place, Name: name, JobID: j.identity.JobID, Operation: j.identity.Operation, Restored: restored,
	}
	j.status.PodStatus = &v1alpha1.PodStatus{
		PodName: name, LastRun: new(metav1.NewTime(j.now())), LastSuccessfulJobID: succeeded,
	}
	return j.save(ctx)
}

// prepare returns the Secrets of the Pod, except those for its uploads, and its template.
func (j *podJob) prepare(
	ctx context.Context, c *config.Config, restored *v1alpha1.State,
) ([]pod.Object, *pod.Template, error) {
	files, err := j.input(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	packed, err := archive.FromFiles(files)
	if err != nil {
		return nil, nil, sdk.ConfigurationError(reasonInput, "spec.config: pack what the container is given: %w", err)
	}
	secrets, s := j.identity.Inputs(archive.Split(packed)), &j.deployer.settings
	t := &pod.Template{
		Image: c.Image, Command: c.Command, Args: c.Args, Resources: c.MainResources,
		NodeSelector: c.NodeSelector, Tolerations: c.Tolerations, ServiceAccountName: c.ServiceAccountName,
		Inputs: len(secrets), Deadline: j.podDeadline(ctx),
		Init: s.InitContainer, Wait: s.WaitContainer, Overlay: s.PodTemplate,
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
		t.PullSecrets, secrets = true, append(secrets, j.identity.Pull(dockerConfig))
	}
	return secrets, t, nil
}

// podDeadline returns the time limit of the Pod, a little less than the job's; 0 for none.
func (j *podJob) podDeadline(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := deadline.Sub(j.now())
	return max(left-min(left/slackShare, maxSlack), time.Second)
}

// upload returns the instructions for the run's wait container.
func (j *podJob) upload() *layout.Upload {
	return j.identity.Upload(j.deployer.settings.Limits.State.Bytes, j.deployer.settings.Limits.Exports.Bytes)
}

// renewAt returns the due time of the wait container's next token; zero if it has none.
func (j *podJob) renewAt() time.Time {
	if r := j.status.Run; r != nil && r.RenewAccess != nil && r.Outcome == "" {
		return r.RenewAccess.Time
	}
	return time.Time{}
}

// renewAccess gives the wait container a token if it has none, or if half of its token's life is over. The allowed
// uploads stay those of the creation of the Pod, whatever the limits are now: its Role is for them.
func (j *podJob) renewAccess(ctx context.Context, at *pod.Cluster) error {
	now := j.now()
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
	if r.RenewAccess != nil {
		err = at.ReplaceToken(ctx, r.Name, token)
	} else if access, accessErr := j.identity.Access(j.upload(), token); accessErr == nil {
		err = at.Apply(ctx, access)
	} else {
		err = accessErr
	}
	if err != nil {
		return err
	}
	r.RenewAccess = new(metav1.NewTime(now.Add(ends.Sub(now) / 2)))
	return nil
}
