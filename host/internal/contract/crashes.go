package contract

import (
	"math"
	"strconv"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReasonPluginCrashed is the reason of errors about a plugin crash during a call.
const ReasonPluginCrashed = "PluginCrashed"

// maxCrashes bounds a count of crashes against an overflow.
const maxCrashes = 1 << 16

// Crashes is how often a plugin has crashed during a call for the item's job, in multiples of a quarter; zero for a job
// that is not running, and for a count not written by Pergola.
func Crashes(item *v1alpha1.DeployItem) float64 {
	if !IsUnderWay(item) {
		return 0
	}
	crashes, err := strconv.ParseFloat(named(&item.Status, ConditionPluginCrashes), 64)
	if err != nil || crashes < 0 || crashes >= maxCrashes || math.Trunc(4*crashes) != 4*crashes {
		return 0
	}
	return crashes
}

// NoteCrashes notes in the status how often a plugin has crashed during a call for the item's job. The next pick-up
// resets the count, and the next success removes the condition.
func NoteCrashes(item *v1alpha1.DeployItem, crashes float64, now time.Time) {
	count := strconv.FormatFloat(crashes, 'f', -1, 64)
	setCondition(&item.Status, ConditionPluginCrashes, v1alpha1.ConditionTrue, ReasonPluginCrashed, count, now)
}

// IsPoison reports whether a plugin has crashed during a call for the item since its last success.
func IsPoison(item *v1alpha1.DeployItem) bool {
	return condition(&item.Status, ConditionPluginCrashes) != nil
}

// ShowsCrash reports whether the status shows a retry of the job after a crash of its plugin.
func ShowsCrash(item *v1alpha1.DeployItem) bool {
	c, last := condition(&item.Status, ConditionReconciling), item.Status.LastError
	return Crashes(item) > 0 && c != nil && c.Reason == reasonRetrying &&
		last != nil && last.Reason == ReasonPluginCrashed
}
