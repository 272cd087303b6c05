package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// ReasonInvalid is the reason of the error about an invalid provider configuration. It is Landscaper's.
const ReasonInvalid = "ValidateProviderConfiguration"

// Misread has the problems of decoding a provider configuration, found before its validation.
type Misread struct {
	// Unknown are the unknown fields, as texts for users. Ignored ones are not among them.
	Unknown []string
	// Wrong are the values of a wrong type.
	Wrong []sdk.Problem
}

// Decode reads all readable fields of a provider configuration into a struct. With strict an unknown field is wrong;
// without it, unknown has these fields. The error is about an unreadable configuration.
func Decode(req *sdk.Request, into any, strict bool) (unknown []string, misread Misread, err error) {
	unknown, misread.Wrong, err = req.DecodeConfigPartly(into)
	if strict {
		unknown, misread.Unknown = nil, unknown
	}
	return unknown, misread, err
}

// whole is the field of a problem whose message names the field.
const whole = "spec.config"

// With returns all problems of a provider configuration: those of decoding, and those of the validation not caused by
// them.
func (m Misread) With(problems field.ErrorList) []sdk.Problem {
	all := slices.Clone(m.Wrong)
	var told []string
	for _, p := range problems {
		if !m.explains(p) {
			all = append(all, sdk.Problem{Field: p.Field, Message: p.ErrorBody()})
			told = append(told, fmt.Sprintf("unknown field %q", p.Field))
		}
	}
	for _, text := range m.Unknown {
		isTold := func(of string) bool { return strings.HasPrefix(text, of) } // a hint may follow
		if !slices.ContainsFunc(told, isTold) {
			all = append(all, sdk.Problem{Field: whole, Message: text})
		}
	}
	return all
}

// explains reports whether a value of a wrong type is the cause of a problem: the problem is about this value or a
// part of it, or about a missing part of one of its parents.
func (m Misread) explains(p *field.Error) bool {
	return slices.ContainsFunc(m.Wrong, func(wrong sdk.Problem) bool {
		return isWithin(p.Field, wrong.Field) || p.Type != field.ErrorTypeForbidden && isWithin(wrong.Field, p.Field)
	})
}

// isWithin reports whether a path is equal to another one or below it.
func isWithin(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (of == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Error returns With as an error; nil without problems.
func (m Misread) Error(problems field.ErrorList) error {
	all := m.With(problems)
	if len(all) == 0 {
		return nil
	}
	texts := make([]string, 0, len(all))
	for _, p := range all {
		if p.Field == whole {
			texts = append(texts, p.Message)
			continue
		}
		texts = append(texts, p.Field+": "+p.Message)
	}
	err := sdk.ConfigurationError(ReasonInvalid, "%s: %s", whole, strings.Join(texts, "; "))
	if len(m.Wrong)+len(m.Unknown) > 0 {
		err.Operation, err.Reason = "DecodeConfig", sdk.ReasonConfigInvalid // as sdk.Request.DecodeConfig has it
	}
	return err
}

// Describe lists all problems of a document for users.
func Describe(problems field.ErrorList) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return strings.Join(texts, "; ")
}

// ValidateChoice reports a text other than the choices. An empty one stands for the default.
func ValidateChoice[T ~string](found T, choice []T, path *field.Path) field.ErrorList {
	if found == "" || slices.Contains(choice, found) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, found, choice)}
}

// ValidateSchedule reports the problems of the schedule at path; nil for none.
func ValidateSchedule(schedule *managedresource.ContinuousReconcile, path *field.Path) field.ErrorList {
	if schedule == nil {
		return nil
	}
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

// ReadDeletionGroups returns the steps of an item's deletion from the field deletionGroups of its provider
// configuration. A mistake in another field must not prevent a deletion, and is ignored. A mistake in the groups is
// an error, because they may exempt objects from the deletion. So is an unknown field in them with strict: without it
// a group may take more objects than intended.
func ReadDeletionGroups(req *sdk.Request, strict bool) (prune.Groups, error) {
	document, unknown, err := decodeDeletionGroups(req.DeployItem.Spec.Config)
	if err == nil && strict {
		err = errors.Join(unknown...)
	}
	if err != nil {
		return prune.Groups{}, sdk.ConfigurationError(ReasonInvalid, "spec.config: deletionGroups: %w", err)
	}
	groups, problems := prune.ParseGroups(document, field.NewPath("deletionGroups"))
	if len(problems) > 0 {
		return prune.Groups{}, sdk.ConfigurationError(ReasonInvalid, "spec.config: %s", Describe(problems))
	}
	return groups, nil
}

// decodeDeletionGroups reads only the deletion groups of a configuration. unknown has an error for each unknown field
// in them.
func decodeDeletionGroups(
	config *runtime.RawExtension,
) (groups []managedresource.DeletionGroup, unknown []error, err error) {
	if config == nil || !json.Valid(config.Raw) {
		return nil, nil, nil
	}
	var fields struct {
		DeletionGroups json.RawMessage `json:"deletionGroups"`
	}
	if err := json.Unmarshal(config.Raw, &fields); err != nil || len(fields.DeletionGroups) == 0 {
		return nil, nil, err
	}
	unknown, err = kjson.UnmarshalStrict(fields.DeletionGroups, &groups)
	return groups, unknown, err
}
