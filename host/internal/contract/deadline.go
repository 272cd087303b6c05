package contract

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// DefaultTimeout is how long a job may take if neither the item nor its plugin says.
const DefaultTimeout = 10 * time.Minute

// Resolution is the resolution of the times in a status; the rest is cut off.
const Resolution = time.Second

// ConditionTimeLimited has, in its message, the time of the last job of an item without spec.timeout, if that is not
// DefaultTimeout. So a job keeps its time in each replica, whether its plugin runs there or not.
const ConditionTimeLimited v1alpha1.ConditionType = "TimeLimited"

// reasonPluginDefault: the time is the default of the plugin, or the operator's for it.
const reasonPluginDefault = "PluginDefault"

// LimitTime notes the time of a job at its pick-up, for an item without spec.timeout: the default of the plugin, at
// most that of the operator. Zero stands for none.
func LimitTime(item *v1alpha1.DeployItem, byPlugin, most time.Duration, now time.Time) {
	timeout := hostside.Lowest(cmp.Or(byPlugin, DefaultTimeout), most)
	if item.Spec.Timeout != "" || timeout == DefaultTimeout {
		removeConditions(&item.Status, ConditionTimeLimited)
		return
	}
	setCondition(&item.Status, ConditionTimeLimited, v1alpha1.ConditionTrue, reasonPluginDefault, timeout.String(), now)
}

// TimeoutByDefault is the time of the last job of an item without spec.timeout.
func TimeoutByDefault(item *v1alpha1.DeployItem) time.Duration {
	timeout, err := time.ParseDuration(named(&item.Status, ConditionTimeLimited))
	if err != nil || timeout <= 0 {
		return DefaultTimeout
	}
	return timeout
}

// Deadline is the end of the time of the item's job, or of its abort. A job's time begins with its pick-up. It is zero
// for no deadline, and for a job in a queue. The error is about a malformed spec.timeout. The time before the pick-up
// is bounded by Landscaper, or by package standalone.
func Deadline(item *v1alpha1.DeployItem) (time.Time, error) {
	if accepted := acceptedOf(item); accepted.aborts(item) {
		return accepted.Until.Time, nil
	}
	timeout := TimeoutByDefault(item)
	if item.Spec.Timeout != "" {
		parsed, limited, err := item.Spec.Timeout.Parse()
		if err != nil {
			return time.Time{}, fieldError("spec.timeout", err)
		}
		if !limited {
			return time.Time{}, nil
		}
		timeout = parsed
	}
	times := item.Status.TransitionTimes
	if times == nil || times.InitTime.IsZero() || isQueued(&item.Status) {
		return time.Time{}, nil
	}
	return times.InitTime.Add(timeout + Resolution), nil // no job gets less time than its timeout
}

func expired(item *v1alpha1.DeployItem, now time.Time) bool {
	deadline, err := Deadline(item)
	return err == nil && !deadline.IsZero() && !now.Before(deadline)
}

// TimeoutError is the error of a job that took too long. underWay names the part at work, empty for none; the last wait
// of the job follows from its status.
func TimeoutError(item *v1alpha1.DeployItem, underWay string) Error {
	message := "the job took longer than spec.timeout allows"
	if item.Spec.Timeout == "" {
		message = fmt.Sprintf("the job took longer than the %s that it has without spec.timeout",
			duration.HumanDuration(TimeoutByDefault(item)))
	}
	if underWay != "" {
		message += "; " + underWay
	}
	if waitingFor := WaitingFor(item); waitingFor != "" {
		message = fmt.Sprintf("%s; it was waiting for: %s", message, waitingFor)
	}
	return Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout},
		Operation: "Timeout",
		Reason:    ReasonProgressingTimeout,
		Message:   message,
	}
}
