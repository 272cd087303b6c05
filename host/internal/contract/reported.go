package contract

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxReported is how many conditions a deployer can report with one result.
const maxReported = 8

// maxQuoted bounds what is quoted of a condition that is refused.
const maxQuoted = 64

// typePattern is also that of the conditions of HTTP hooks.
var typePattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// CheckReported validates the conditions that a deployer reports with a result.
func CheckReported(reported []sdk.Condition) error {
	if len(reported) > maxReported {
		return fmt.Errorf("conditions: expected at most %d, but found %d", maxReported, len(reported))
	}
	statuses := []v1alpha1.ConditionStatus{v1alpha1.ConditionTrue, v1alpha1.ConditionFalse, v1alpha1.ConditionUnknown}
	seen := map[v1alpha1.ConditionType]bool{}
	for i, c := range reported {
		wrong := func(field, format string, args ...any) error {
			return fmt.Errorf("conditions[%d].%s: %s", i, field, fmt.Sprintf(format, args...))
		}
		switch {
		case !typePattern.MatchString(string(c.Type)):
			return wrong("type", "expected a name in CamelCase of at most 63 letters and digits, but found %.*q",
				maxQuoted, c.Type)
		case slices.Contains(sdk.HostConditions(), c.Type):
			return wrong("type", "%s is a condition that the host sets itself; report it by another name", c.Type)
		case seen[c.Type]:
			return wrong("type", "%s is there twice", c.Type)
		case !slices.Contains(statuses, c.Status):
			return wrong("status", "expected True, False or Unknown for %s, but found %.*q", c.Type, maxQuoted, c.Status)
		case !reasonPattern.MatchString(c.Reason):
			return wrong("reason", "expected a reason in CamelCase for %s, but found %.*q", c.Type, maxQuoted, c.Reason)
		}
		seen[c.Type] = true
	}
	return nil
}

// SetReported sets the conditions reported by a deployer. They belong to the item and not to a job, and stay until the
// next report.
func SetReported(item *v1alpha1.DeployItem, reported []sdk.Condition, now time.Time) {
	for _, c := range reported {
		setCondition(&item.Status, c.Type, c.Status, c.Reason, c.Message, now)
	}
}
