package run

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	// pollAfter is the interval between reconciles of a job without events.
	pollAfter = 5 * time.Minute
	// uploadPatience is the time for the upload of exports and state while others than main go on.
	uploadPatience = 2 * time.Minute
	// maxSlack is the most time between the end of a Pod and the end of its job, to find out the outcome.
	maxSlack = 30 * time.Second
	// endlessToken is the requested lifetime of the token of a job without a timeout. It is renewed at half of its life.
	endlessToken = 24 * time.Hour
	// tokenSlack is the lifetime of a token after the end of its job: a Pod has some time to end.
	tokenSlack = 15 * time.Minute
)

// wait returns the response of a job in waiting for a Pod. checkAgain is the time of its possible end without any
// change; zero for never.
func (j *Job) wait(
	at *pod.Cluster, p *corev1.Pod, result *pod.Result, what string, checkAgain time.Time,
) *sdk.Response {
	after := pollAfter
	for _, due := range []time.Time{checkAgain, j.renewAt(), pod.TimeIsUp(p), j.uploadDue(p)} {
		if !due.IsZero() {
			after = min(after, max(due.Sub(j.now()), time.Second))
		}
	}
	return j.Wait(what, after, at.Follow(p, result))
}

// uploadDue returns the time limit of a requested upload; zero for none, and for a Pod under deletion.
func (j *Job) uploadDue(p *corev1.Pod) time.Time {
	if asked := j.status.Run.UploadAsked; asked != nil && p.DeletionTimestamp == nil {
		return asked.Add(uploadPatience)
	}
	return time.Time{}
}

// timeToStop returns the grace period of a Pod at the end of its time: the rest of the job, less some to find out the
// outcome.
func (j *Job) timeToStop(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Second
	}
	return max(deadline.Sub(j.now())*2/3, time.Second)
}

// podDeadline returns the time limit of the Pod; 0 for none. A fifth of the job's time, at most maxSlack, is left then.
func (j *Job) podDeadline(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := deadline.Sub(j.now())
	return max(left-min(left/5, maxSlack), time.Second)
}

// renewAt returns the due time of the wait container's next token; zero if it has none.
func (j *Job) renewAt() time.Time {
	if r := j.status.Run; r != nil && r.RenewAccess != nil && r.Outcome == "" {
		return r.RenewAccess.Time
	}
	return time.Time{}
}

// renewAccess gives the wait container a token if it has none, or if half of its token's life is over. The allowed
// uploads stay those of the creation of the Pod, whatever the limits are now: its Role is for them.
func (j *Job) renewAccess(ctx context.Context, at *pod.Cluster) error {
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
