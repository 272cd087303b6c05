package deployer

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/cluster"
	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/plugins/container/internal/verdict"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The steps of a job, as users see them in its progress and its errors.
const (
	stepStart  = "StartPod"
	stepRun    = "RunPod"
	stepStop   = "StopPod"
	stepExport = "Export"
	stepRemove = "Remove"
)

// pollAfter is when a job is looked at again that nobody has woken.
const pollAfter = 5 * time.Minute

// job is one call of the deployer. Its methods return a response if the job cannot go on in this call, and nil if it can.
type job struct {
	*Deployer

	request  *sdk.Request
	identity run.Identity
	place    v1alpha1.Place
	status   *v1alpha1.ProviderStatus
	// result is that of the run, if it was read in this call when the run was over.
	result *cluster.Result
}

// begin returns what a call works with. place is where the Pod is to be run, unless the run has begun already; nil for where the settings say.
func (d *Deployer) begin(req *sdk.Request, operation v1alpha1.Operation, place *v1alpha1.Place) (*job, error) {
	status, err := readStatus(req)
	if err != nil {
		return nil, err
	}
	item := req.DeployItem
	j := &job{Deployer: d, request: req, status: status, identity: run.Identity{
		Namespace: item.Namespace, Name: item.Name, UID: item.UID, Generation: item.Generation, JobID: req.JobID, Operation: operation,
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
	return j, nil
}

// begun tells whether the run of this job is the one that was noted last.
func (j *job) begun() bool {
	return j.status.Run != nil && j.status.Run.Name == j.identity.RunName()
}

// first tells whether this is the first call of the item's job: what is told once is told then.
func (j *job) first() bool {
	phase := j.request.DeployItem.Status.Phase
	return phase == landscaper.DeployItemPhaseInit || phase == landscaper.DeployItemPhaseInitDelete
}

// warnOf tells which fields of the provider configuration were passed over.
func (j *job) warnOf(unknown []string) {
	if len(unknown) > 0 && j.first() {
		j.request.Warning(reasonUnknownField, "spec.config: passed over: "+strings.Join(unknown, "; "))
	}
}

// run brings the run of this job to its end. The error is why it has not succeeded.
func (j *job) run(ctx context.Context, c *config.Config) (*sdk.Response, error) {
	if !j.begun() {
		if res, err := j.stopLast(ctx); res != nil || err != nil {
			return res, err
		}
		return j.start(ctx, c)
	}
	if j.status.Run.Outcome == "" {
		pod, err := j.ownPod(ctx)
		switch {
		case err != nil:
			return j.end(), err
		case pod != nil:
			if res, err := j.follow(ctx, c, pod); res != nil || err != nil {
				return res, err
			}
		case j.status.Run.PodUID == "":
			return j.startAgain(ctx, c)
		default:
			if err := j.noteGone(ctx); err != nil {
				return j.end(), err
			}
		}
	}
	return j.conclude(ctx)
}

// startAgain creates a run that was noted, but not created, or so it seems: what the host has read of the deploy item may be old, and the run over and
// cleared away long ago. Nothing can be saved then.
func (j *job) startAgain(ctx context.Context, c *config.Config) (*sdk.Response, error) {
	if err := j.request.SaveProviderStatus(ctx, j.status); err != nil {
		return nil, err
	}
	return j.start(ctx, c)
}

// ownPod returns the Pod of the run that was noted last; nil if there is none.
func (j *job) ownPod(ctx context.Context) (*corev1.Pod, error) {
	at, err := j.at(ctx, j.status.Run.Place)
	if err != nil {
		return nil, err
	}
	pod, err := at.Pod(ctx, j.status.Run.Name)
	if err != nil {
		return nil, j.explain(j.status.Run.Place, stepRun, err)
	}
	if pod != nil && pod.Labels[run.ItemLabel] != string(j.identity.UID) {
		return nil, j.explain(j.status.Run.Place, stepRun, fmt.Errorf("there is a Pod %s/%s that belongs to somebody else; delete or rename it", pod.Namespace, pod.Name))
	}
	return pod, nil
}

// follow waits for the end of the Pod, and notes its outcome then.
func (j *job) follow(ctx context.Context, c *config.Config, pod *corev1.Pod) (*sdk.Response, error) {
	at, err := j.at(ctx, j.status.Run.Place)
	if err != nil {
		return nil, err
	}
	result, err := at.Result(ctx, j.status.Run.Name)
	if err != nil {
		return j.end(), j.explain(j.status.Run.Place, stepRun, err)
	}
	hidden, err := j.secrecy(ctx, c, at, pod)
	if err != nil {
		return j.end(), err
	}
	pod = verdict.LastKnown(pod, j.status.PodStatus)
	j.status.PodStatus, j.status.Run.PodUID = podStatus(j.status.PodStatus, pod, hidden), pod.UID
	v := j.judge(pod, result)
	if !v.Over {
		if v.GiveUp != nil {
			o := outcomeOf(v.GiveUp, result, hidden)
			j.status.Run.Reason, j.status.Run.Message, j.status.Run.Codes = o.Reason, o.Message, o.Codes
		}
		if err := j.tend(ctx, at, pod); err != nil {
			return j.end(), err
		}
		return j.wait(at, pod, result, hidden.Hide(v.WaitingFor), v.LookAgain), nil
	}
	j.keepState(result)
	j.result = result
	return nil, j.note(ctx, outcomeOf(v.Failure, result, hidden))
}

// judge judges the run that was noted last, and notes since when it is hindered.
func (j *job) judge(pod *corev1.Pod, result *cluster.Result) verdict.Verdict {
	r := j.status.Run
	facts := verdict.Facts{Report: result.Report, Patience: j.settings.ImagePullPatience, TimedOut: r.TimedOut, Now: j.options.Now()}
	if r.HinderedSince != nil {
		facts.HinderedSince = r.HinderedSince.Time
	}
	if r.Reason != "" {
		facts.GivenUp = &verdict.Failure{Reason: r.Reason, Message: r.Message, Codes: r.Codes}
	}
	v := verdict.Pod(pod, facts)
	switch {
	case !v.Hindered:
		r.HinderedSince = nil
	case r.HinderedSince == nil:
		r.HinderedSince = j.now()
	}
	return v
}

// tend does what there is to do while a Pod runs: it stops one that is given up or whose time is up, and sees to the rights of its wait
// container.
func (j *job) tend(ctx context.Context, at *cluster.Cluster, pod *corev1.Pod) error {
	r := j.status.Run
	if r.Reason != "" {
		if pod.DeletionTimestamp != nil {
			return nil
		}
		if err := j.request.SaveProviderStatus(ctx, j.status); err != nil {
			return err
		}
		return j.explain(r.Place, stepStop, at.StopWithin(ctx, pod, min(giveUpGrace, j.timeToStop(ctx))))
	}
	if due := verdict.TimeIsUp(pod); !due.IsZero() && !j.options.Now().Before(due) {
		// Kubernetes does not stop a Pod that has no node yet.
		r.TimedOut = true
		if err := j.request.SaveProviderStatus(ctx, j.status); err != nil {
			return err
		}
		return j.explain(r.Place, stepStop, at.StopWithin(ctx, pod, j.timeToStop(ctx)))
	}
	if r.RenewAccess == nil {
		// Somebody has died before the token was noted, and the limits may be others than those that he has made the Role for.
		if err := at.ApplyRole(ctx, j.identity.Role(j.upload())); err != nil {
			return j.explain(r.Place, stepRun, err)
		}
	}
	return j.explain(r.Place, stepRun, j.renewAccess(ctx, at))
}

// giveUpGrace is how long a Pod has to stop whose containers will not start: a user waits for the error, and there is nothing to upload.
const giveUpGrace = 2 * time.Second

// noteGone notes the outcome of a run whose Pod was there and is not any more: somebody has taken its finalizer off.
func (j *job) noteGone(ctx context.Context) error {
	r := j.status.Run
	at, err := j.at(ctx, r.Place)
	if err != nil {
		return err
	}
	result, err := at.Result(ctx, r.Name)
	if err != nil {
		return j.explain(r.Place, stepRun, err)
	}
	j.keepState(result)
	failure := verdict.Gone(r.Namespace, r.Name)
	if r.Reason != "" {
		failure = &verdict.Failure{Reason: r.Reason, Message: r.Message, Codes: r.Codes}
	}
	return j.note(ctx, outcomeOf(failure, result, redact.New(nil)))
}

// timeToStop is how long a Pod may take to stop whose time is up: what is left of the job, less some for finding out what has become of it.
func (j *job) timeToStop(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Second
	}
	return max(deadline.Sub(j.options.Now())*2/3, time.Second)
}

// wait is the response of a job that waits for a Pod. lookAgain is when that may be over without any change; zero for never.
func (j *job) wait(at *cluster.Cluster, pod *corev1.Pod, result *cluster.Result, what string, lookAgain time.Time) *sdk.Response {
	j.watches.Follow(types.NamespacedName{Namespace: j.identity.Namespace, Name: j.identity.Name}, at.Follow(pod, result))
	after := pollAfter
	for _, due := range []time.Time{lookAgain, j.renewAt(), verdict.TimeIsUp(pod)} {
		if !due.IsZero() {
			after = min(after, max(due.Sub(j.options.Now()), time.Second))
		}
	}
	res := sdk.WaitFor(what, after)
	res.ProviderStatus = j.status
	return res
}

// note saves the outcome of the run that was noted last. Nothing of the run may be removed before.
func (j *job) note(ctx context.Context, o outcome) error {
	r := j.status.Run
	r.Outcome, r.Reason, r.Message, r.Codes = o.Outcome, o.Reason, o.Message, o.Codes
	if o.Outcome == v1alpha1.OutcomeSucceeded && j.status.PodStatus != nil {
		j.status.PodStatus.LastSuccessfulJobID = r.JobID
	}
	return j.request.SaveProviderStatus(ctx, j.status)
}

// conclude removes what nobody needs of the run that was noted last, and returns the error that it has ended with.
func (j *job) conclude(ctx context.Context) (*sdk.Response, error) {
	if err := j.clear(ctx); err != nil {
		return j.end(), err
	}
	r := j.status.Run
	if r.Outcome == v1alpha1.OutcomeSucceeded {
		return nil, nil //nolint:nilnil // see job
	}
	return j.end(), &sdk.Error{Codes: r.Codes, Operation: stepRun, Reason: r.Reason, Err: fmt.Errorf("%s", r.Message)}
}

// stopLast stops the Pod of the run that was noted last, if that has not come to an end, and waits until it has stopped. What it has uploaded
// of its state counts.
func (j *job) stopLast(ctx context.Context) (*sdk.Response, error) {
	r := j.status.Run
	if r == nil || r.Outcome != "" && r.Cleared {
		return nil, nil //nolint:nilnil // see job
	}
	at, err := j.at(ctx, r.Place)
	if err != nil {
		return nil, err
	}
	pod, err := j.ownPod(ctx)
	if err != nil {
		return j.end(), err
	}
	if r.Outcome == "" {
		result, err := at.Result(ctx, r.Name)
		if err != nil {
			return j.end(), j.explain(r.Place, stepStop, err)
		}
		if pod != nil && !verdict.Stopped(pod, j.options.Now()) {
			if err := at.Stop(ctx, pod); err != nil {
				return j.end(), j.explain(r.Place, stepStop, err)
			}
			what := fmt.Sprintf("Pod %s/%s of job %s to stop", pod.Namespace, pod.Name, r.JobID)
			return j.wait(at, pod, result, what, verdict.LostAt(pod)), nil
		}
		j.keepState(result)
		if err := j.note(ctx, aborted()); err != nil {
			return nil, err
		}
	}
	if err := j.clear(ctx); err != nil {
		return j.end(), err
	}
	return nil, nil //nolint:nilnil // see job
}

// end is the response of a call that ends with an error, or with nothing to say.
func (j *job) end() *sdk.Response {
	if j.status.Run == nil {
		return nil
	}
	return &sdk.Response{ProviderStatus: j.status}
}

// now is the time, as a status has it.
func (j *job) now() *metav1.Time {
	t := metav1.NewTime(j.options.Now())
	return &t
}
