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
	// unknown are the unknown fields, as texts for users. Ignored ones are not among them.
	unknown []string
	// wrong are the values of a wrong type.
	wrong []sdk.Problem
}

// With returns all problems of a provider configuration: those of decoding, and those of the validation not caused by
// them.
func (m misread) With(problems field.ErrorList) []sdk.Problem {
	var all []sdk.Problem
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
	for _, text := range m.unknown {
		isReported := func(beginning string) bool { return strings.HasPrefix(text, beginning) } // a hint may follow
		if !slices.ContainsFunc(reported, isReported) {
			all = append(all, sdk.Problem{Field: whole, Message: text})
		}
	}
	return all
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
	all := m.With(problems)
	if len(all) == 0 {
		return nil
	}
	err := sdk.ConfigurationProblems(sdk.ReasonConfigProblems, all)
	if len(m.wrong)+len(m.unknown) > 0 {
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
