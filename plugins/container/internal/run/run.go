package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/container/internal/report"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/redact"
)

const (
	// reasonAborted is the reason of a stopped run: its job was aborted, or there is a new job.
	reasonAborted = "Aborted"
	// reasonOutliving is the reason of the warning about containers of a Pod still running after the end of main.
	reasonOutliving = "ContainersGoOn"

	// giveUpGrace is the grace period of a Pod without hope for its containers: the user waits for the error, and there
	// is nothing to upload.
	giveUpGrace = 2 * time.Second
	// uploadGrace is the grace period of a Pod after the end of its main: exports and state are uploaded.
	uploadGrace = 30 * time.Second
)

// ReadStatus reads the last saved status. Landscaper's statuses have no run: this deployer has begun nothing then.
func ReadStatus(req *sdk.Request) (*v1alpha1.ProviderStatus, error) {
	status := &v1alpha1.ProviderStatus{}
	_, err := req.DecodeProviderStatus(status, v1alpha1.ProviderStatusKind, v1alpha1.GroupVersion.String())
	if err != nil {
		return nil, err
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ProviderStatusKind}
	return status, nil
}

// Begin returns the Job of a call. place is the place of the Pod, unless the run has begun already; nil for the place
// of the settings.
func (r *Runner) Begin(req *sdk.Request, operation v1alpha1.Operation, place *v1alpha1.Place) (*Job, error) {
	status, err := ReadStatus(req)
	if err != nil {
		return nil, err
	}
	item := req.DeployItem
	j := &Job{runner: r, status: status, identity: pod.Identity{
		Namespace: item.Namespace, Name: item.Name, UID: item.UID, Generation: item.Generation,
		JobID: req.JobID, Operation: operation,
	}}
	j.Job = job.New(req, r.Watches, j)
	if req.HostCluster != nil {
		j.identity.Installation = req.HostCluster.Installation
	}
	switch {
	case j.begun():
		j.place = status.Run.Place
	case place != nil:
		j.place = *place
	default:
		if j.place.Namespace, err = r.namespace(req.HostCluster); err != nil {
			return nil, err
		}
	}
	j.identity.PodNamespace = j.place.Namespace
	return j, nil
}

// Run brings the run of this job to its end. The error is the reason of its failure.
func (j *Job) Run(ctx context.Context, c *config.Config) (*sdk.Response, error) {
	if !j.begun() {
		if res, err := j.StopLast(ctx); res != nil || err != nil {
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
		return j.End(), err
	}
	p, err := j.ownPod(ctx, at)
	switch {
	case err != nil:
		return j.End(), err
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
			return j.End(), err
		}
	}
	return j.conclude(ctx)
}

// follow waits for the end of the Pod, and then notes its outcome.
func (j *Job) follow(ctx context.Context, c *config.Config, at *pod.Cluster, p *corev1.Pod) (*sdk.Response, error) {
	r := j.status.Run
	result, err := at.Result(ctx, r.Name)
	if err != nil {
		return j.End(), j.explain(r.Place, stepRun, err)
	}
	hidden, err := j.redactor(ctx, c, at, p)
	if err != nil {
		return j.End(), err
	}
	p = pod.LastKnown(p, j.status.PodStatus)
	j.status.PodStatus, r.PodUID = report.PodStatus(j.status.PodStatus, p, hidden), p.UID
	progress := j.progress(p, result)
	if progress.Over {
		j.keepState(p, result, hidden.Hide)
		j.result = result
		if failure := report.Failure(j.withLoss(progress.Failure), result, hidden); failure != nil {
			return nil, j.note(ctx, v1alpha1.OutcomeFailed, failure)
		}
		return nil, j.note(ctx, v1alpha1.OutcomeSucceeded, &pod.Failure{})
	}
	if progress.GiveUp != nil {
		failure := report.Failure(progress.GiveUp, result, hidden)
		r.Reason, r.Message, r.Codes = failure.Reason, failure.Message, failure.Codes
	}
	if err := j.attend(ctx, at, p, progress.Outliving); err != nil {
		return j.End(), err
	}
	return j.wait(at, p, result, hidden.Hide(progress.WaitingFor), progress.CheckAgain), nil
}

// progress returns the progress of the run noted last, and notes the beginning of a hindrance.
func (j *Job) progress(p *corev1.Pod, result *pod.Result) pod.Progress {
	r := j.status.Run
	facts := pod.Facts{
		Pod: p, Report: result.Report, Patience: j.runner.Settings.ImagePullPatience.Duration,
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

// redactor returns a Redactor for the words of the container. It hides the container's input: the present values of
// the item, and, if main has left last words, those at the creation of the Pod; the run's input has these.
func (j *Job) redactor(
	ctx context.Context, c *config.Config, at *pod.Cluster, p *corev1.Pod,
) (*redact.Redactor, error) {
	var files map[string][]byte
	if pod.LastWords(p) != "" {
		chunks, err := at.Input(ctx, j.identity.UID, j.status.Run.Name)
		if err != nil {
			return nil, j.explain(j.status.Run.Place, stepRun, err)
		}
		files, err = archive.Files(archive.Join(chunks))
		if err != nil && len(chunks) > 0 {
			return nil, fmt.Errorf("read the input of the container: %w", err)
		}
	}
	hidden := report.Hiding(c.ImportValues, j.Request.Target, files)
	hidden.Publish(j.identity.Namespace, j.identity.Name, c.Image)
	return hidden, nil
}

// attend looks after a running Pod: it stops one given up, at the end of its time, or with containers outliving main,
// and renews the rights of its wait container.
func (j *Job) attend(ctx context.Context, at *pod.Cluster, p *corev1.Pod, outliving []string) error {
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
func (j *Job) askForUpload(ctx context.Context, at *pod.Cluster, p *corev1.Pod, outliving []string) error {
	j.Request.Warning(reasonOutliving, fmt.Sprintf("the Pod %s/%s is stopped as soon as exports and state are uploaded: "+
		"its container main has ended, but these go on: %s; make them native sidecars "+
		"(initContainers with restartPolicy Always)", p.Namespace, p.Name, strings.Join(outliving, ", ")))
	if err := at.AskForUpload(ctx, p); err != nil {
		return j.explain(j.status.Run.Place, stepStop, err)
	}
	j.status.Run.UploadAsked = new(metav1.NewTime(j.now()))
	return nil
}

// stop saves the reason and then stops a Pod.
func (j *Job) stop(ctx context.Context, at *pod.Cluster, p *corev1.Pod, grace time.Duration) error {
	if err := j.save(ctx); err != nil {
		return err
	}
	return j.explain(j.status.Run.Place, stepStop, at.Stop(ctx, p, grace))
}

// StopLast stops the Pod of the run noted last if it has no outcome, and waits until it has stopped. The uploaded
// part of its state counts.
func (j *Job) StopLast(ctx context.Context) (*sdk.Response, error) {
	r := j.status.Run
	if r == nil || r.Outcome != "" && r.Cleared {
		return nil, nil //nolint:nilnil // see Job
	}
	at, err := j.at(ctx, r.Place)
	if err != nil {
		return nil, err
	}
	if r.Outcome == "" {
		p, err := j.ownPod(ctx, at)
		if err != nil {
			return j.End(), err
		}
		result, err := at.Result(ctx, r.Name)
		if err != nil {
			return j.End(), j.explain(r.Place, stepStop, err)
		}
		if p != nil && !pod.Stopped(p, j.now()) {
			if err := at.Stop(ctx, p, 0); err != nil {
				return j.End(), j.explain(r.Place, stepStop, err)
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
		return j.End(), err
	}
	return nil, nil //nolint:nilnil // see Job
}
