package providerconfig

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// scheduleField is the field with the schedule of an item.
const scheduleField = "continuousReconcile"

// ValidateChoice reports a text other than the choices. An empty one stands for the default.
func ValidateChoice[T ~string](found T, choice []T, path *field.Path) field.ErrorList {
	if found == "" || slices.Contains(choice, found) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, found, choice)}
}

// ValidateSchedule reports the problems of the field continuousReconcile; nil for none.
func ValidateSchedule(schedule *managedresource.ContinuousReconcile) field.ErrorList {
	if schedule == nil {
		return nil
	}
	path := field.NewPath(scheduleField)
	_, err := continuousreconcile.Parse(schedule.Every, schedule.Cron)
	var wrong *continuousreconcile.FieldError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return field.ErrorList{field.Invalid(path.Child(wrong.Field), wrong.Value, wrong.Detail)}
	default:
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
}
