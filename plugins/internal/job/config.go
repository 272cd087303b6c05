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

// ReasonInvalid is given to the error about a provider configuration that does not make sense. It is Landscaper's.
const ReasonInvalid = "ValidateProviderConfiguration"

// Misread is what is wrong with a provider configuration before anybody has looked at what it says.
type Misread struct {
	// Unknown are fields that nobody knows, as texts for people. Those that were passed over are not wrong.
	Unknown []string
	// Wrong are the values of a wrong type.
	Wrong []sdk.Problem
}

// Decode reads a provider configuration into a struct, of which it fills what can be read. strict says whether an
// unknown field is wrong; if not, unknown has them. The error is about a configuration that cannot be read at all.
func Decode(req *sdk.Request, into any, strict bool) (unknown []string, misread Misread, err error) {
	unknown, misread.Wrong, err = req.DecodeConfigPartly(into)
	if strict {
		unknown, misread.Unknown = nil, unknown
	}
	return unknown, misread, err
}

// whole is the field of a problem that names another one itself.
const whole = "spec.config"

// With returns everything that is wrong with a provider configuration: what was misread, and those of the problems of
// what was read that do not follow from that.
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
		if !slices.Contains(told, text) {
			all = append(all, sdk.Problem{Field: whole, Message: text})
		}
	}
	return all
}

// explains tells whether a problem is there because a value has a wrong type: it is about that value or a part of it,
// or says that something is missing in what the value is a part of.
func (m Misread) explains(p *field.Error) bool {
	return slices.ContainsFunc(m.Wrong, func(wrong sdk.Problem) bool {
		return isWithin(p.Field, wrong.Field) || p.Type != field.ErrorTypeForbidden && isWithin(wrong.Field, p.Field)
	})
}

// isWithin tells whether a path is another one, or leads on from there.
func isWithin(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (of == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Error returns With as an error; nil if nothing is wrong.
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

// Describe lists everything that is wrong with a document, for people.
func Describe(problems field.ErrorList) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return strings.Join(texts, "; ")
}

// ValidateChoice reports a text that is none of those that may be chosen. An empty one stands for the default.
func ValidateChoice[T ~string](found T, choice []T, path *field.Path) field.ErrorList {
	if found == "" || slices.Contains(choice, found) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, found, choice)}
}

// ValidateSchedule reports what is wrong with a schedule, which is at path; nil for none.
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
// configuration. The rest of the configuration does not count, since a mistake in it must not prevent a deletion; one
// in the groups does, because they may say that objects stay. So does an unknown field in them: without it a group may
// take more than it was meant to.
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

// decodeDeletionGroups reads nothing but the deletion groups of a configuration. unknown are the fields of them that
// nobody knows.
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
