package deployer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// The steps of a job in its progress and its errors.
	stepStart  = "StartPod"
	stepRun    = "RunPod"
	stepStop   = "StopPod"
	stepExport = "Export"
	stepRemove = "Remove"

	// pollAfter is the interval between reconciles of a job without events.
	pollAfter = 5 * time.Minute
	// giveUpGrace is the grace period of a Pod without hope for its containers: the user waits for the error, and there
	// is nothing to upload.
	giveUpGrace = 2 * time.Second
	// uploadGrace is the grace period of a Pod after the end of its main: exports and state are uploaded.
	uploadGrace = 30 * time.Second
	// uploadPatience is the time for the upload of exports and state while others than main go on.
	uploadPatience = 2 * time.Minute
)

// podJob is one call of the deployer. Its methods return a response if the job cannot go on in this call, otherwise
// nil.
type podJob struct {
	deployer *Deployer
	request  *sdk.Request
	identity pod.Identity
	place    v1alpha1.Place
	status   *v1alpha1.ProviderStatus
	// result is the result of the run, if read in this call after the end of the run.
	result *pod.Result
}

// begin returns the podJob of a call. place is the place of the Pod, unless the run has begun already; nil for the
// place of the settings.
func (d *Deployer) begin(req *sdk.Request, operation v1alpha1.Operation, place *v1alpha1.Place) (*podJob, error) {
	status, err := readStatus(req)
	if err != nil {
		return nil, err
	}
	item := req.DeployItem
	j := &podJob{deployer: d, request: req, status: status, identity: pod.Identity{
		Namespace: item.Namespace, Name: item.Name, UID: item.UID, Generation: item.Generation,
		JobID: req.JobID, Operation: operation,
	}}
	if req.HostCluster != nil {
		j.identity.Installation = req.HostCluster.Installation
	}
	switch {
	case j.begun():
		j.place = status.Run.Place
	case place != nil:
		j.place = *place
	default:
		if j.place.Namespace, err = d.namespace(req.HostCluster); err != nil {
			return nil, err
		}
	}
	j.identity.PodNamespace = j.place.Namespace
	return j, nil
}

// begun reports whether the run of this job is the one noted last.
func (j *podJob) begun() bool {
	return j.status.Run != nil && j.status.Run.Name == j.identity.RunName()
}

// warnOf warns the user of ignored fields of the provider configuration, in the first call of the item's job.
func (j *podJob) warnOf(unknown []string) {
	phase := j.request.DeployItem.Status.Phase
	first := phase == landscaper.DeployItemPhaseInit || phase == landscaper.DeployItemPhaseInitDelete
	if len(unknown) > 0 && first {
		j.request.Warning(job.ReasonUnknownField, "spec.config: passed over: "+strings.Join(unknown, "; "))
	}
}

// run brings the run of this job to its end. The error is the reason of its failure.
func (j *podJob) run(ctx context.Context, c *config.Config) (*sdk.Response, error) {
	if !j.begun() {
		if res, err := j.stopLast(ctx); res != nil || err != nil {
			return res, err
		}
		return j.start(ctx, c)
	}
	r := j.status.Run
	if r.Outcome != "" {
		return j.conclude(ctx)
	}
	at, err := j.at(ctx, r.Place)
	if err != nil {
		return j.end(), err
	}
	p, err := j.ownPod(ctx, at)
	switch {
	case err != nil:
		return j.end(), err
	case p != nil:
		if res, err := j.follow(ctx, c, at, p); res != nil || err != nil {
			return res, err
		}
	case r.PodUID == "":
		// It was not created, or so it seems: the host's copy of the item may be old, and the run over and cleared away
		// long ago. In this case the save fails.
		if err := j.save(ctx); err != nil {
			return nil, err
		}
		return j.start(ctx, c)
	default:
		if err := j.noteGone(ctx, at); err != nil {
			return j.end(), err
		}
	}
	return j.conclude(ctx)
}

// ownPod returns the Pod of the run noted last; nil for none.
func (j *podJob) ownPod(ctx context.Context, at *pod.Cluster) (*corev1.Pod, error) {
	p, err := at.Pod(ctx, j.status.Run.Name)
	if err == nil && p != nil && p.Labels[pod.ItemLabel] != string(j.identity.UID) {
		p, err = nil, fmt.Errorf("there is a Pod %s/%s that belongs to somebody else; delete or rename it",
			p.Namespace, p.Name)
	}
	return p, j.explain(j.status.Run.Place, stepRun, err)
}

// follow waits for the end of the Pod, and then notes its outcome.
func (j *podJob) follow(ctx context.Context, c *config.Config, at *pod.Cluster, p *corev1.Pod) (*sdk.Response, error) {
	r := j.status.Run
	result, err := at.Result(ctx, r.Name)
	if err != nil {
		return j.end(), j.explain(r.Place, stepRun, err)
	}
	hidden, err := j.redactor(ctx, c, at, p)
	if err != nil {
		return j.end(), err
	}
	p = pod.LastKnown(p, j.status.PodStatus)
	j.status.PodStatus, r.PodUID = podStatus(j.status.PodStatus, p, hidden), p.UID
	progress := j.progress(p, result)
	if progress.Over {
		j.keepState(p, result, hidden.Hide)
		j.result = result
		if failure := reported(j.withLoss(progress.Failure), result, hidden); failure != nil {
			return nil, j.note(ctx, v1alpha1.OutcomeFailed, failure)
		}
		return nil, j.note(ctx, v1alpha1.OutcomeSucceeded, &pod.Failure{})
	}
	if progress.GiveUp != nil {
		failure := reported(progress.GiveUp, result, hidden)
		r.Reason, r.Message, r.Codes = failure.Reason, failure.Message, failure.Codes
	}
	if err := j.attend(ctx, at, p, progress.Outliving); err != nil {
		return j.end(), err
	}
	return j.wait(at, p, result, hidden.Hide(progress.WaitingFor), progress.CheckAgain), nil
}

// progress returns the progress of the run noted last, and notes the beginning of a hindrance.
func (j *podJob) progress(p *corev1.Pod, result *pod.Result) pod.Progress {
	r := j.status.Run
	facts := pod.Facts{
		Pod: p, Report: result.Report, Patience: j.deployer.settings.ImagePullPatience.Duration,
		TimedOut: r.TimedOut, GivenUp: givenUp(r), Now: j.now(),
	}
	if r.HinderedSince != nil {
		facts.HinderedSince = r.HinderedSince.Time
	}
	progress := facts.Progress()
	if !progress.Hindered {
		r.HinderedSince = nil
	} else if r.HinderedSince == nil {
		r.HinderedSince = new(metav1.NewTime(j.now()))
	}
	return progress
}

// givenUp returns the reason for the stop of a run's Pod; nil for none.
func givenUp(r *v1alpha1.Run) *pod.Failure {
	if r.Reason == "" {
		return nil
	}
	return &pod.Failure{Reason: r.Reason, Message: r.Message, Codes: r.Codes}
}

// attend looks after a running Pod: it stops one given up, at the end of its time, or with containers outliving main,
// and renews the rights of its wait container.
func (j *podJob) attend(ctx context.Context, at *pod.Cluster, p *corev1.Pod, outliving []string) error {
	r := j.status.Run
	due := pod.TimeIsUp(p)
	switch {
	case r.Reason != "" && p.DeletionTimestamp != nil:
		return nil
	case r.Reason != "":
		return j.stop(ctx, at, p, min(giveUpGrace, j.timeToStop(ctx)))
	case len(outliving) > 0 && r.UploadAsked == nil:
		if err := j.askForUpload(ctx, at, p, outliving); err != nil {
			return err
		}
	case len(outliving) > 0 && !j.now().Before(j.uploadDue(p)):
		return j.stop(ctx, at, p, min(uploadGrace, j.timeToStop(ctx)))
	case !due.IsZero() && !j.now().Before(due):
		// Kubernetes does not stop a Pod without a node.
		r.TimedOut = true
		return j.stop(ctx, at, p, j.timeToStop(ctx))
	case r.RenewAccess == nil:
		// A replica has died before it noted the token, and the limits may have changed since it made the Role.
		if err := at.Apply(ctx, j.identity.Role(j.upload())); err != nil {
			return j.explain(r.Place, stepRun, err)
		}
	}
	return j.explain(r.Place, stepRun, j.renewAccess(ctx, at))
}

// askForUpload has the wait container upload the results of main although others go on. After a deletion of the Pod,
// these would use up its grace period unless they end when asked to.
func (j *podJob) askForUpload(ctx context.Context, at *pod.Cluster, p *corev1.Pod, outliving []string) error {
	j.request.Warning(reasonOutliving, fmt.Sprintf("the Pod %s/%s is stopped as soon as exports and state are uploaded: "+
		"its container main has ended, but these go on: %s; make them native sidecars "+
		"(initContainers with restartPolicy Always)", p.Namespace, p.Name, strings.Join(outliving, ", ")))
	if err := at.AskForUpload(ctx, p); err != nil {
		return j.explain(j.status.Run.Place, stepStop, err)
	}
	j.status.Run.UploadAsked = new(metav1.NewTime(j.now()))
	return nil
}

// uploadDue returns the time limit of a requested upload; zero for none, and for a Pod under deletion.
func (j *podJob) uploadDue(p *corev1.Pod) time.Time {
	if asked := j.status.Run.UploadAsked; asked != nil && p.DeletionTimestamp == nil {
		return asked.Add(uploadPatience)
	}
	return time.Time{}
}

// stop saves the reason and then stops a Pod.
func (j *podJob) stop(ctx context.Context, at *pod.Cluster, p *corev1.Pod, grace time.Duration) error {
	if err := j.save(ctx); err != nil {
		return err
	}
	return j.explain(j.status.Run.Place, stepStop, at.Stop(ctx, p, grace))
}

// timeToStop returns the grace period of a Pod at the end of its time: the rest of the job, less some to find out the
// outcome.
func (j *podJob) timeToStop(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Second
	}
	return max(deadline.Sub(j.now())*2/3, time.Second)
}

// noteGone notes the outcome of a run with a vanished Pod: its finalizer was removed by another client.
func (j *podJob) noteGone(ctx context.Context, at *pod.Cluster) error {
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

// wait returns the response of a job in waiting for a Pod. checkAgain is the time of its possible end without any
// change; zero for never.
func (j *podJob) wait(
	at *pod.Cluster, p *corev1.Pod, result *pod.Result, what string, checkAgain time.Time,
) *sdk.Response {
	j.deployer.watches.Follow(j.name(), at.Follow(p, result))
	after := pollAfter
	for _, due := range []time.Time{checkAgain, j.renewAt(), pod.TimeIsUp(p), j.uploadDue(p)} {
		if !due.IsZero() {
			after = min(after, max(due.Sub(j.now()), time.Second))
		}
	}
	res := sdk.WaitFor(what, after)
	res.ProviderStatus = j.status
	return res
}

// save saves the status now, and not only with the response.
func (j *podJob) save(ctx context.Context) error { return j.request.SaveProviderStatus(ctx, j.status) }

// note saves the outcome of the run noted last, with the reason of a failure. Nothing of the run may be removed
// before.
func (j *podJob) note(ctx context.Context, outcome v1alpha1.Outcome, why *pod.Failure) error {
	r := j.status.Run
	r.Outcome, r.Reason, r.Message, r.Codes = outcome, why.Reason, why.Message, why.Codes
	if outcome == v1alpha1.OutcomeSucceeded && j.status.PodStatus != nil {
		j.status.PodStatus.LastSuccessfulJobID = r.JobID
	}
	return j.save(ctx)
}

// conclude removes the objects of the run noted last, and returns its error.
func (j *podJob) conclude(ctx context.Context) (*sdk.Response, error) {
	if err := j.clear(ctx); err != nil {
		return j.end(), err
	}
	r := j.status.Run
	if r.Outcome == v1alpha1.OutcomeSucceeded {
		return nil, nil //nolint:nilnil // see job
	}
	return j.end(), &sdk.Error{Codes: r.Codes, Operation: stepRun, Reason: r.Reason, Err: errors.New(r.Message)}
}

// stopLast stops the Pod of the run noted last if it has no outcome, and waits until it has stopped. The uploaded
// part of its state counts.
func (j *podJob) stopLast(ctx context.Context) (*sdk.Response, error) {
	r := j.status.Run
	if r == nil || r.Outcome != "" && r.Cleared {
		return nil, nil //nolint:nilnil // see job
	}
	at, err := j.at(ctx, r.Place)
	if err != nil {
		return nil, err
	}
	if r.Outcome == "" {
		p, err := j.ownPod(ctx, at)
		if err != nil {
			return j.end(), err
		}
		result, err := at.Result(ctx, r.Name)
		if err != nil {
			return j.end(), j.explain(r.Place, stepStop, err)
		}
		if p != nil && !pod.Stopped(p, j.now()) {
			if err := at.Stop(ctx, p, 0); err != nil {
				return j.end(), j.explain(r.Place, stepStop, err)
			}
			what := fmt.Sprintf("Pod %s/%s of job %s to stop", p.Namespace, p.Name, r.JobID)
			return j.wait(at, p, result, what, pod.LostAt(p)), nil
		}
		j.keepState(p, result, withheld)
		why := &pod.Failure{
			Reason: reasonAborted, Message: "the Pod was stopped, because its job was ended",
			Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry},
		}
		if err := j.note(ctx, v1alpha1.OutcomeAborted, why); err != nil {
			return nil, err
		}
	}
	if err := j.clear(ctx); err != nil {
		return j.end(), err
	}
	return nil, nil //nolint:nilnil // see job
}

// end returns the response of a call with an error, or without anything to report.
func (j *podJob) end() *sdk.Response {
	if j.status.Run == nil {
		return nil
	}
	return &sdk.Response{ProviderStatus: j.status}
}

func (j *podJob) now() time.Time { return j.deployer.options.Now() }

func (j *podJob) name() types.NamespacedName {
	return types.NamespacedName{Namespace: j.identity.Namespace, Name: j.identity.Name}
}
