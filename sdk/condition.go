package sdk

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Condition is an observation about the deploy item beyond the end of the job. Users see it and wait for it beside the
// host's own conditions of success and failure.
type Condition struct {
	// Type in CamelCase, such as "Drifted", of at most 63 letters and digits.
	Type v1alpha1.ConditionType
	// Status is True, False or Unknown.
	Status v1alpha1.ConditionStatus
	// Reason in CamelCase, of at most 256 characters. Required.
	Reason string
	// Message is a sentence for the user. It must hold no secrets.
	Message string
}

// HostConditions returns the types of the host's own conditions. A result with one of them fails with
// ERR_INTERNAL_PROBLEM.
func HostConditions() []v1alpha1.ConditionType {
	return []v1alpha1.ConditionType{
		"Ready", "Reconciling", "Stalled", "PickedUp", "Started", "Forced",
		"PluginCrashes", "HookAnswered", "Finalized", "Served", "NextTry", "Paused", "Held", "Moving", "TimeLimited",
	}
}

// maxConditions bounds the conditions of one result.
const maxConditions = 8

var (
	conditionType = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	// conditionReason is the pattern of Kubernetes, with a bound of the host.
	conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]{0,254}[A-Za-z0-9_])?$`)
)

// CheckConditions returns all problems of the conditions of a result, as the host finds them; nil for none.
func CheckConditions(conditions []Condition) error {
	var errs []error
	if len(conditions) > maxConditions {
		errs = append(errs, fmt.Errorf("there are %d conditions; at most %d can be reported in one result",
			len(conditions), maxConditions))
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
