package continuousreconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// FromSpec returns a NextFunc for deploy items with a schedule in their provider configuration. The function read gets
// it out of an item; nil for none. An error of read stands for an unreadable configuration, and the item has no
// schedule then: its job reports the error, and it needs none again in each reconcile.
//
// A schedule refused by Parse is an error with the name of the field and the code ERR_CONFIGURATION_PROBLEM.
func FromSpec(read func(item *v1alpha1.DeployItem) (*managedresource.ContinuousReconcile, error)) NextFunc {
	return func(_ context.Context, after time.Time, item *v1alpha1.DeployItem) (*time.Time, error) {
		spec, err := read(item)
		if err != nil || spec == nil {
			return nil, nil //nolint:nilerr // never; see above
		}
		schedule, err := Parse(spec.Every, spec.Cron)
		if err != nil {
			return nil, sdk.ConfigurationError(sdk.ReasonConfigInvalid, "spec.config.%w", atSpec(err))
		}
		return schedule.Next(after), nil
	}
}

// atSpec puts the field of a configuration before an error of Parse.
func atSpec(err error) error {
	var wrong *FieldError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("continuousReconcile.%w", err)
	}
	return fmt.Errorf("continuousReconcile: %w", err)
}

// ReadSpec returns the field continuousReconcile of the item's provider configuration of any kind; nil if there is
// none. It ignores all other fields. It is made for FromSpec.
func ReadSpec(item *v1alpha1.DeployItem) (*managedresource.ContinuousReconcile, error) {
	if item.Spec.Config == nil || len(item.Spec.Config.Raw) == 0 {
		return nil, nil //nolint:nilnil // no schedule
	}
	var config struct {
		ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(item.Spec.Config.Raw, &config); err != nil {
		return nil, fmt.Errorf("decode provider configuration: %w", err)
	}
	return config.ContinuousReconcile, nil
}
