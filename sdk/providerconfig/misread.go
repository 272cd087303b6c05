package providerconfig

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk"
)

// whole is the field of a problem whose message names the field.
const whole = "spec.config"

// misread has the problems of decoding a provider configuration, found before its validation.
type misread struct {
	// unread are the unknown fields and those that are there twice. Ignored ones are not among them.
	unread []sdk.UnreadField
	// wrong are the values of a wrong type.
	wrong []sdk.Problem
}

// With returns all problems of a provider configuration: those of decoding, and those of the validation not caused by
// them.
func (m misread) With(problems field.ErrorList) (all []sdk.Problem, unread []sdk.UnreadField) {
	for _, p := range m.wrong {
		if p.Field == "" {
			p.Field = whole
		}
		all = append(all, p)
	}
	var reported []string
	for _, p := range problems {
		if !m.explains(p) {
			all = append(all, sdk.Problem{Field: p.Field, Message: p.ErrorBody()})
			reported = append(reported, fmt.Sprintf("unknown field %q", p.Field))
		}
	}
	for _, u := range m.unread {
		isReported := func(beginning string) bool { return strings.HasPrefix(u.Text(), beginning) } // a hint may follow
		if !slices.ContainsFunc(reported, isReported) {
			unread = append(unread, u)
		}
	}
	return all, unread
}

// explains reports whether a value of a wrong type is the cause of a problem: the problem is about this value or a
// part of it, or about a missing part of one of its parents.
func (m misread) explains(p *field.Error) bool {
	return slices.ContainsFunc(m.wrong, func(wrong sdk.Problem) bool {
		return isWithin(p.Field, wrong.Field) || p.Type != field.ErrorTypeForbidden && isWithin(wrong.Field, p.Field)
	})
}

// isWithin reports whether a path is equal to another one or below it.
func isWithin(path, of string) bool {
	rest, ok := strings.CutPrefix(path, of)
	return ok && (of == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Error returns With as an error; nil without problems.
func (m misread) Error(problems field.ErrorList) error {
	all, unread := m.With(problems)
	if len(all)+len(unread) == 0 {
		return nil
	}
	err := sdk.ConfigurationProblems(sdk.ReasonConfigProblems, all, unread...)
	if len(m.wrong)+len(m.unread) > 0 {
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
