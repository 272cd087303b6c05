package contract

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// The annotations of users for standalone mode.
const (
	// PausedAnnotation, with any value but "false", keeps an item from jobs without a request by its user, where there is
	// no Landscaper. A running job and a deletion go on.
	PausedAnnotation = "host.pergola.dev/paused"
	// RetriesAnnotation overrides the Pauses of the host for an item.
	RetriesAnnotation = "host.pergola.dev/retries"
)

// The conditions of standalone mode.
const (
	// ConditionNextTry: True after a failed job with another one planned; the message has its time. False while that job
	// is under way, deployers see it by hook.FirstJob, and for a job that would be planned if retries were not switched
	// off. Absent for all other items.
	ConditionNextTry = hook.ConditionNextTry
	// ConditionPaused: True for an item with PausedAnnotation; absent for all others.
	ConditionPaused v1alpha1.ConditionType = "Paused"
)

const (
	reasonPlanned      = "Planned"
	reasonUnderWay     = "UnderWay"
	reasonSwitchedOff  = "SwitchedOff"
	reasonPaused       = "Annotated"
	messagePlanned     = "try %d of job %s at %s"
	messageSwitchedOff = "try %d of job %s is not planned: retries are switched off"
	messagePaused      = "no job starts by itself until the annotation " + PausedAnnotation + " is removed"
	pausesSeparator    = ","
)

// spread is the part of a pause that differs from item to item.
const spread = 4

// Pauses are the pauses between the jobs of an item that keeps failing, where there is no Landscaper. First comes
// after the first failure, zero for no further job. Each further one is twice as long, up to Longest. The zero value is
// that of a host beside a Landscaper, where an item shows nothing of tries.
type Pauses struct{ First, Longest time.Duration }

// Override reads the value of RetriesAnnotation: "none", the first pause, or the first and the longest pause with a
// comma between them. Without a longest one that of p is in force.
func (p Pauses) Override(value string) (Pauses, error) {
	if value == "none" {
		return Pauses{Longest: p.Longest}, nil
	}
	first, longest, both := strings.Cut(value, pausesSeparator)
	parsed := Pauses{Longest: p.Longest}
	var err error
	if parsed.First, err = time.ParseDuration(first); err == nil && both {
		parsed.Longest, err = time.ParseDuration(longest)
	}
	if parsed.Longest < parsed.First && !both {
		parsed.Longest = parsed.First
	}
	if err != nil || parsed.First < time.Second || parsed.Longest < parsed.First {
		return p, fmt.Errorf("annotation %s: expected none, a pause of at least 1s such as 1m, or the first and the "+
			"longest pause such as 1m,1h, but found %q", RetriesAnnotation, value)
	}
	return parsed, nil
}

// of returns the pauses of an item. The error is about its annotation; the pauses of the host are in force then.
func (p Pauses) of(item *v1alpha1.DeployItem) (Pauses, error) {
	value, annotated := item.Annotations[RetriesAnnotation]
	if !annotated {
		return p, nil
	}
	return p.Override(value)
}

// after returns the pause after a number of failures. random is from 0 to 1, and makes the pause shorter.
func (p Pauses) after(failures int, random float64) time.Duration {
	pause := time.Duration(min(float64(p.First)*math.Exp2(float64(failures-1)), float64(p.Longest)))
	return pause - time.Duration(float64(pause)*random/spread)
}

// Try is another job after a failed one.
type Try struct {
	// Number counts the jobs from the first one, which has no condition; one after a repair.
	Number int
	// Job is the job that is tried again, the one before the first failure.
	Job string
	// At is its time.
	At time.Time
}

// Fail changes the status to a failed job, as the function of this name does, and plans the next try if the error can
// heal by itself.
func (p Pauses) Fail(item *v1alpha1.DeployItem, deletion bool, e Error, random float64, now time.Time) {
	failed := Try{Number: 1, Job: item.Status.JobID}
	if running, ok := runningTry(item); ok {
		failed = running
	}
	Fail(item, deletion, e, now)
	if p != (Pauses{}) && e.heals() && !FailedForMissingReference(item) {
		p.plan(item, Try{Number: failed.Number + 1, Job: failed.Job}, random, now)
	}
}

// plan notes the next try in the status, with its time unless retries are switched off.
func (p Pauses) plan(item *v1alpha1.DeployItem, next Try, random float64, now time.Time) {
	p, malformed := p.of(item)
	if p.First <= 0 {
		message := fmt.Sprintf(messageSwitchedOff, next.Number, next.Job)
		setCondition(&item.Status, ConditionNextTry, v1alpha1.ConditionFalse, reasonSwitchedOff, message, now)
		return
	}
	at := now.Add(p.after(next.Number-1, random)).UTC().Truncate(time.Second)
	message := fmt.Sprintf(messagePlanned, next.Number, next.Job, at.Format(time.RFC3339))
	if held := HeldOf(item); held != (Held{}) {
		message += fmt.Sprintf(messageOrGone, held.By)
	}
	if malformed != nil {
		message += "; " + malformed.Error()
	}
	setCondition(&item.Status, ConditionNextTry, v1alpha1.ConditionTrue, reasonPlanned, message, now)
}

// Replan plans a try that was not planned because retries were switched off, or the other way round.
func (p Pauses) Replan(item *v1alpha1.DeployItem, random float64, now time.Time) {
	if p.FitPlan(item) {
		return
	}
	next, _ := KnownTry(item)
	p.plan(item, next, random, now)
}

// FitPlan reports whether the status has a planned try only with retries, and one that is not planned only without.
func (p Pauses) FitPlan(item *v1alpha1.DeployItem) bool {
	p, _ = p.of(item)
	_, planned := PlannedTry(item)
	_, switchedOff := switchedOffTry(item)
	return p.First > 0 && !switchedOff || p.First <= 0 && !planned
}

// heals reports whether the next job can succeed without a change of the item.
func (e Error) heals() bool {
	return e.Heals || !e.Terminal && !slices.ContainsFunc(e.Codes, isLasting)
}

// isLasting reports whether an error with this code stays until the item is changed.
func isLasting(c v1alpha1.ErrorCode) bool {
	return c == v1alpha1.ErrorConfigurationProblem || c == v1alpha1.ErrorNoRetry
}

// runningTry returns the try that is the current job; not ok for any other job.
func runningTry(item *v1alpha1.DeployItem) (try Try, ok bool) {
	try.Number, try.Job, ok = hook.TryOf(item)
	return try, ok
}

// NextTry returns the next try after the failure of an item; not ok for none.
func (p Pauses) NextTry(item *v1alpha1.DeployItem) (next Try, ok bool) {
	p, _ = p.of(item) // the condition shows the error
	if p.First <= 0 || !Failed(item) || FailedForMissingReference(item) {
		return Try{}, false
	}
	next, ok = PlannedTry(item)
	times := item.Status.TransitionTimes
	if ok && times != nil && times.FinishedTime != nil { // the pauses may have become shorter
		if latest := times.FinishedTime.Add(p.Longest); latest.Before(next.At) {
			next.At = latest
		}
	}
	return next, ok
}

// PlannedTry returns the try in the condition NextTry of an item; not ok for none.
func PlannedTry(item *v1alpha1.DeployItem) (next Try, ok bool) {
	c := condition(&item.Status, ConditionNextTry)
	if c == nil || c.Status != v1alpha1.ConditionTrue {
		return Try{}, false
	}
	var at string
	_, err := fmt.Sscanf(c.Message, messagePlanned, &next.Number, &next.Job, &at)
	if err == nil {
		next.At, err = time.Parse(time.RFC3339, strings.TrimSuffix(at, ";"))
	}
	return next, err == nil && next.Number > 0
}

// switchedOffTry is PlannedTry for a try that is not planned because retries are switched off.
func switchedOffTry(item *v1alpha1.DeployItem) (next Try, ok bool) {
	c := condition(&item.Status, ConditionNextTry)
	if c == nil || c.Reason != reasonSwitchedOff {
		return Try{}, false
	}
	_, err := fmt.Sscanf(c.Message, messageSwitchedOff, &next.Number, &next.Job)
	return next, err == nil && next.Number > 0
}

// KnownTry returns the next try of an item, planned or not; not ok for none.
func KnownTry(item *v1alpha1.DeployItem) (next Try, ok bool) {
	if next, ok = PlannedTry(item); ok {
		return next, true
	}
	return switchedOffTry(item)
}

// AfterRepair returns the try of a failed item after a change of an object that it uses. The pauses begin anew with it.
func AfterRepair(item *v1alpha1.DeployItem) Try {
	try := Try{Number: 1, Job: item.Status.JobID}
	if known, ok := KnownTry(item); ok {
		try.Job = known.Job
	}
	return try
}

// Failed reports whether the last job of an item is finished and has failed.
func Failed(item *v1alpha1.DeployItem) bool {
	return Finished(item) && item.Status.Phase == failedPhase(item.DeletionTimestamp != nil)
}

// SetTry is SetNewJob for a try.
func SetTry(item *v1alpha1.DeployItem, jobID string, try Try, now time.Time) {
	SetNewJob(item, jobID, now)
	setCondition(&item.Status, ConditionNextTry, v1alpha1.ConditionFalse, reasonUnderWay,
		hook.TryMessage(jobID, try.Number, try.Job), now)
}

// IsTry reports whether the job of an item is another try after a failure.
func IsTry(item *v1alpha1.DeployItem) bool {
	_, is := runningTry(item)
	return is && !Finished(item)
}

// IsPaused reports whether a user has paused an item.
func IsPaused(item *v1alpha1.DeployItem) bool {
	value, annotated := item.Annotations[PausedAnnotation]
	return annotated && !strings.EqualFold(value, "false") // a job in spite of "yes" could do harm
}

// SetPaused pauses an item, or ends its pause.
func SetPaused(item *v1alpha1.DeployItem, pause bool) {
	if pause {
		metav1.SetMetaDataAnnotation(&item.ObjectMeta, PausedAnnotation, "true")
		return
	}
	delete(item.Annotations, PausedAnnotation)
}

// ShowsPaused reports whether the status shows what IsPaused says.
func ShowsPaused(item *v1alpha1.DeployItem) bool {
	return IsPaused(item) == (condition(&item.Status, ConditionPaused) != nil)
}

// ShowPaused shows in the status what IsPaused says.
func ShowPaused(item *v1alpha1.DeployItem, now time.Time) {
	if !IsPaused(item) {
		removeConditions(&item.Status, ConditionPaused)
		return
	}
	setCondition(&item.Status, ConditionPaused, v1alpha1.ConditionTrue, reasonPaused, messagePaused, now)
}
