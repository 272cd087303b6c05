package contract

import (
	"strconv"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReasonPluginCrashed is the reason of errors that say that a plugin has crashed during a call.
const ReasonPluginCrashed = "PluginCrashed"

// Crashes is how often a plugin has crashed during a call for the item's job; zero for a job that is not running, and
// for a count that Pergola cannot have written.
func Crashes(item *v1alpha1.DeployItem) int {
	if !IsUnderWay(item) {
		return 0
	}
	crashes, err := strconv.ParseUint(named(&item.Status, ConditionPluginCrashes), 10, 16)
	if err != nil {
		return 0
	}
	return int(crashes)
}

// NoteCrashes notes in the status how often a plugin has crashed during a call for the item's job. The next pick-up
// resets it.
func NoteCrashes(item *v1alpha1.DeployItem, crashes int, now time.Time) {
	count := strconv.Itoa(crashes)
	setCondition(&item.Status, ConditionPluginCrashes, v1alpha1.ConditionTrue, ReasonPluginCrashed, count, now)
}

// ShowsCrash reports whether the status shows that the job is tried again because its plugin has crashed.
func ShowsCrash(item *v1alpha1.DeployItem) bool {
	c, last := condition(&item.Status, ConditionReconciling), item.Status.LastError
	return Crashes(item) > 0 && c != nil && c.Reason == reasonRetrying &&
		last != nil && last.Reason == ReasonPluginCrashed
}
