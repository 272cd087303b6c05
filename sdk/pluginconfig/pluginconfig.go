// Package pluginconfig reads the configuration document of a plugin, written by an operator, for sdk.Configurer: with
// defaults, apiVersion and kind, checked values, amounts and times. All problems are reported at once, each with its
// path.
package pluginconfig

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
)

// Problems are those of a document, in the order of their discovery. The zero value has none.
type Problems struct {
	all []sdk.Problem
	// decoded counts the first ones, found by the decoder.
	decoded int
}

// List returns all problems.
func (p *Problems) List() []sdk.Problem { return p.all }

// Add adds a problem, unless it follows from a value of the wrong type. field is its path in the document, empty for
// the document itself; the format is that of fmt.Sprintf.
func (p *Problems) Add(field, format string, args ...any) {
	isCause := func(wrong sdk.Problem) bool {
		rest, ok := strings.CutPrefix(field, wrong.Field)
		return ok && wrong.Field != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	if !slices.ContainsFunc(p.all[:p.decoded], isCause) {
		p.all = append(p.all, sdk.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
	}
}

// Load reads a document, YAML or JSON, into settings filled with their defaults; an empty one leaves them. It returns
// all problems at once, each with its path; the settings are useless then. typeMeta is the part of the settings with
// apiVersion and kind, and has the expected ones. check validates the values; an unknown field or a wrong type
// elsewhere does not prevent it.
func Load(document []byte, settings any, typeMeta *metav1.TypeMeta, check func(*Problems)) []sdk.Problem {
	if len(document) == 0 {
		return nil
	}
	expected := *typeMeta
	*typeMeta = metav1.TypeMeta{}
	var p Problems
	if p.decode(document, settings) {
		p.expect("apiVersion", expected.APIVersion, typeMeta.APIVersion)
		p.expect("kind", expected.Kind, typeMeta.Kind)
		check(&p)
	}
	return p.List()
}

// Check is Load for a part of a document without apiVersion and kind.
func Check(part []byte, into any, check func(*Problems)) []sdk.Problem {
	var p Problems
	if p.decode(part, into) {
		check(&p)
	}
	return p.List()
}

// decode reports whether the document is a readable object.
func (p *Problems) decode(document []byte, into any) bool {
	p.all = (&sdk.ConfigureRequest{Document: document}).DecodeConfig(into)
	p.decoded = len(p.all)
	return !slices.ContainsFunc(p.all, func(wrong sdk.Problem) bool { return wrong.Field == "" })
}

func (p *Problems) expect(field, expected, found string) {
	if found != expected {
		p.Add(field, "expected %s, but found %q", expected, found)
	}
}
