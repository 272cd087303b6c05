package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/input"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

const (
	// reasonNoHelper is the reason of the error about a plugin without a configured image for its own containers.
	reasonNoHelper = "HelperImageMissing"
	// reasonTemplate is the reason of the error about an unfit podTemplate.
	reasonTemplate = "PodTemplateInvalid"
)

// start notes the run and creates it. Both may have been done in part before.
func (j *Job) start(ctx context.Context, c *config.Config) (*sdk.Response, error) {
	if err := j.locate(ctx); err != nil {
		return j.End(), err
	}
	at, err := j.at(ctx, j.place)
	if err != nil {
		return j.End(), err
	}
	if j.runner.Settings.InitContainer.Image == "" {
		return j.End(), &sdk.Error{Operation: stepStart, Reason: reasonNoHelper, Err: errors.New(
			"this plugin has no image for the containers init and wait; " +
				"the operator sets initContainer.image in its configuration")}
	}
	j.Request.Progress(stepStart, "creating the Pod")
	restored, err := j.restored(ctx, at)
	if err != nil {
		return j.End(), err
	}
	secrets, template, err := j.prepare(ctx, c, restored)
	if err != nil {
		return j.End(), err
	}
	p, err := j.identity.Pod(template)
	if err != nil {
		return j.End(), &sdk.Error{Operation: stepStart, Reason: reasonTemplate, Err: err}
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
			return j.End(), err
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
func (j *Job) startFailed(ctx context.Context, err error) (*sdk.Response, error) {
	final, ok := errors.AsType[*sdk.Error](err)
	if !ok || len(final.Codes) == 0 {
		return j.End(), err
	}
	failure := &pod.Failure{Reason: final.Reason, Message: final.Error(), Codes: final.Codes}
	if err := j.note(ctx, v1alpha1.OutcomeFailed, failure); err != nil {
		return nil, err
	}
	return j.conclude(ctx)
}

// noteStart saves the run as begun, and removes the result of the last run, no longer needed in another job. The
// removal is by the name of the last run: a late call must not remove another run's result.
func (j *Job) noteStart(ctx context.Context, restored *v1alpha1.State) error {
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
func (j *Job) prepare(
	ctx context.Context, c *config.Config, restored *v1alpha1.State,
) ([]pod.Object, *pod.Template, error) {
	files, err := j.runner.Input.Files(ctx, j.Request, c.ProviderConfiguration, c.Files)
	if err != nil {
		return nil, nil, err
	}
	packed, err := archive.FromFiles(files)
	if err != nil {
		return nil, nil, sdk.ConfigurationError(input.ReasonInvalid, "spec.config: pack the input of the container: %w", err)
	}
	secrets, s := j.identity.Inputs(archive.Split(packed)), &j.runner.Settings
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
	dockerConfig, err := input.PullCredentials(ctx, j.Request, c.ProviderConfiguration)
	if err != nil {
		return nil, nil, err
	}
	if dockerConfig != nil {
		t.PullSecrets, secrets = true, append(secrets, j.identity.Pull(dockerConfig))
	}
	return secrets, t, nil
}
