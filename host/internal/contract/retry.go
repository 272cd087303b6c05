package contract

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

const (
	// PausedAnnotation, with the value "true", keeps an item from jobs without a request by its user, where there is no
	// Landscaper. A running job and a deletion go on.
	PausedAnnotation = "host.pergola.dev/paused"
	// RetriesAnnotation has the Pauses of an item; see PausesOf.
	RetriesAnnotation = "host.pergola.dev/retries"
)

// The conditions of standalone mode.
const (
	// ConditionNextTry: True after a failed job with another one planned; the message has its time. False while that job
	// is under way; deployers see it by hook.IsTry. Absent for all other items.
	ConditionNextTry = hook.ConditionNextTry
	// ConditionPaused: True for an item with PausedAnnotation; absent for all others.
	ConditionPaused v1alpha1.ConditionType = "Paused"
)

const (
	reasonPlanned   = "Planned"
	reasonUnderWay  = "UnderWay"
	reasonPaused    = "Annotated"
	messagePlanned  = "try %d at %s"
	messageTrying   = "try %d is under way"
	messagePaused   = "no job starts by itself until the annotation " + PausedAnnotation + " is removed"
	pausesSeparator = ","
)

// maxTries bounds a number of tries against an overflow.
const maxTries = 1 << 16

// spread is the part of a pause that differs from item to item.
const spread = 4

// Pauses are the pauses between the jobs of an item that keeps failing, where there is no Landscaper. First comes
// after the first failure. Each further one is twice as long, up to Longest. The zero value stands for no further job.
type Pauses struct{ First, Longest time.Duration }

// ParsePauses reads the value of RetriesAnnotation: "none", the first pause, or the first and the longest pause with a
// comma between them. Without a longest one that of p is in force.
func (p Pauses) ParsePauses(value string) (Pauses, error) {
	if value == "none" {
		return Pauses{}, nil
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
	return p.ParsePauses(value)
}

// after returns the pause after a number of failures. random is from 0 to 1, and makes the pause shorter.
func (p Pauses) after(failures int, random float64) time.Duration {
	pause := time.Duration(min(float64(p.First)*math.Exp2(float64(failures-1)), float64(p.Longest)))
	return pause - time.Duration(float64(pause)*random/spread)
}

// Fail changes the status to a failed job, as the function of this name does, and plans the next job if the error can
// heal by itself.
func (p Pauses) Fail(item *v1alpha1.DeployItem, deletion bool, e Error, random float64, now time.Time) {
	failures := tries(&item.Status) + 1
	Fail(item, deletion, e, now)
	p, malformed := p.of(item)
	if p.First <= 0 || !e.heals() || FailedForMissingReference(item) {
		return
	}
	at := now.Add(p.after(failures, random)).UTC().Truncate(time.Second)
	message := fmt.Sprintf(messagePlanned, failures+1, at.Format(time.RFC3339))
	if e.Held != (Held{}) {
		message += fmt.Sprintf(messageOrGone, e.Held.By)
	}
	if malformed != nil {
		message += "; " + malformed.Error()
	}
	setCondition(&item.Status, ConditionNextTry, v1alpha1.ConditionTrue, reasonPlanned, message, now)
}

// heals reports whether the next job can succeed without a change of the item.
func (e Error) heals() bool {
	return e.Heals || !e.Terminal && !slices.ContainsFunc(e.Codes, isLasting)
}

// isLasting reports whether an error with this code stays until the item is changed.
func isLasting(c v1alpha1.ErrorCode) bool {
	return c == v1alpha1.ErrorConfigurationProblem || c == v1alpha1.ErrorNoRetry
}

// tries is the number of the running job since the first failure; zero for another job.
func tries(status *v1alpha1.DeployItemStatus) int {
	c := condition(status, ConditionNextTry)
	if c == nil || c.Status == v1alpha1.ConditionTrue {
		return 0
	}
	var number int
	if _, err := fmt.Sscanf(c.Message, messageTrying, &number); err != nil || number < 1 || number > maxTries {
		return 0
	}
	// The first job had no number.
	return number - 1
}

// NextTry returns the time of the next job of an item after a failure, and its number; zero for none. A failure of an
// older version has no plan, and is tried again after the first pause.
func (p Pauses) NextTry(item *v1alpha1.DeployItem) (at time.Time, number int) {
	status := &item.Status
	p, _ = p.of(item) // the condition shows the error
	if p.First <= 0 || !Failed(item) || FailedForMissingReference(item) {
		return time.Time{}, 0
	}
	if c := condition(status, ConditionNextTry); c != nil && c.Status == v1alpha1.ConditionTrue {
		var text string
		if _, err := fmt.Sscanf(c.Message, messagePlanned, &number, &text); err == nil {
			if at, err = time.Parse(time.RFC3339, strings.TrimSuffix(text, ";")); err == nil {
				return at, number
			}
		}
	}
	last, times := status.LastError, status.TransitionTimes
	if last == nil || last.Reason == reasonAborted || slices.ContainsFunc(last.Codes, isLasting) ||
		times == nil || times.FinishedTime == nil {
		return time.Time{}, 0
	}
	return times.FinishedTime.Add(p.First), 2
}

// Failed reports whether the last job of an item is finished and has failed.
func Failed(item *v1alpha1.DeployItem) bool {
	return Finished(item) && item.Status.Phase == failedPhase(item.DeletionTimestamp != nil)
}

// SetTry is SetNewJob for another try after a failure.
func SetTry(item *v1alpha1.DeployItem, jobID string, number int, now time.Time) {
	SetNewJob(item, jobID, now)
	setCondition(&item.Status, ConditionNextTry, v1alpha1.ConditionFalse, reasonUnderWay,
		fmt.Sprintf(messageTrying, number), now)
}

// IsTry reports whether the job of an item is another try after a failure.
func IsTry(item *v1alpha1.DeployItem) bool {
	return !Finished(item) && tries(&item.Status) > 0
}

// IsPaused reports whether a user has paused an item.
func IsPaused(item *v1alpha1.DeployItem) bool { return item.Annotations[PausedAnnotation] == "true" }

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
