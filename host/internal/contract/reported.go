package contract

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// SetReported sets the conditions that a deployer reports. They belong to the item and not to a job, and stay until
// they are reported again.
func SetReported(item *v1alpha1.DeployItem, reported []sdk.Condition, now time.Time) {
	for _, c := range reported {
		setCondition(&item.Status, c.Type, c.Status, c.Reason, c.Message, now)
	}
}
