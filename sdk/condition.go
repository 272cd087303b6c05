package sdk

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// HostConditions returns the types of the conditions that the host sets itself. A deployer cannot report them, and a result that has one
// fails with ERR_INTERNAL_PROBLEM.
func HostConditions() []v1alpha1.ConditionType {
	return []v1alpha1.ConditionType{
		"Ready", "Reconciling", "Stalled", "PickedUp", "Started", "PluginCrashes", "HookAnswered", "Finalized", "Served",
	}
}

// maxConditions is how many conditions the host takes of one result.
const maxConditions = 8

var (
	conditionType = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	// conditionReason is the pattern of Kubernetes, with a bound of the host.
	conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?$`)
)

// CheckConditions says what the host would refuse of the conditions of a result, all at once; nil for nothing.
func CheckConditions(conditions []Condition) error {
	var errs []error
	if len(conditions) > maxConditions {
		errs = append(errs, fmt.Errorf("there are %d conditions; at most %d can be reported in one result", len(conditions), maxConditions))
	}
	for i, c := range conditions {
		if err := c.check(); err != nil {
			errs = append(errs, fmt.Errorf("condition %q: %w", c.Type, err))
		}
		if slices.ContainsFunc(conditions[:i], func(other Condition) bool { return other.Type == c.Type }) {
			errs = append(errs, fmt.Errorf("condition %q: it is there twice", c.Type))
		}
	}
	return errors.Join(errs...)
}

func conditionsToWire(conditions []Condition) ([]*deployerv1.Condition, error) {
	if err := CheckConditions(conditions); err != nil {
		return nil, err
	}
	out := make([]*deployerv1.Condition, 0, len(conditions))
	for _, c := range conditions {
		out = append(out, &deployerv1.Condition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: validText(c.Message),
		})
	}
	return out, nil
}

func (c *Condition) check() error {
	known := []v1alpha1.ConditionStatus{v1alpha1.ConditionTrue, v1alpha1.ConditionFalse, v1alpha1.ConditionUnknown}
	switch {
	case !conditionType.MatchString(string(c.Type)):
		return errors.New("expected a type in CamelCase, of at most 63 letters and digits")
	case slices.Contains(HostConditions(), c.Type):
		return errors.New("the host sets this condition itself; choose another type")
	case !slices.Contains(known, c.Status):
		return fmt.Errorf("expected the status True, False or Unknown, but found %q", c.Status)
	case !conditionReason.MatchString(c.Reason):
		return fmt.Errorf("expected a reason in CamelCase, of at most 256 characters, but found %q", c.Reason)
	}
	return nil
}

// validText returns a text that can be sent: what is no UTF-8 is replaced.
func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
