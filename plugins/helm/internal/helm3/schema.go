package helm3

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v3/pkg/chart"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// schemaURL is what Helm calls the schema of a chart, against which relative references are resolved.
const schemaURL = "file:///values.schema.json"

// mostFindings is how many findings of a schema are told.
const mostFindings = 10

// checkSchemas checks values with the schema of a chart and those of its sub-charts, as Helm does, and quotes none of the values.
func checkSchemas(c *chart.Chart, values map[string]any) error {
	if c.Schema != nil {
		if err := checkSchema(c, values); err != nil {
			return err
		}
	}
	for _, sub := range c.Dependencies() {
		under, ok := values[sub.Name()]
		if !ok || under == nil {
			continue
		}
		object, ok := under.(map[string]any)
		if !ok {
			return &helm.Error{Kind: helm.ValuesInvalid, Message: fmt.Sprintf(
				"chart %s: the value .%s is for the sub-chart of this name and must be an object", c.ChartFullPath(), sub.Name())}
		}
		if err := checkSchemas(sub, object); err != nil {
			return err
		}
	}
	return nil
}

func checkSchema(c *chart.Chart, values map[string]any) error {
	invalid := func(err error) error {
		return &helm.Error{Kind: helm.ChartInvalid, Template: c.ChartFullPath() + "/values.schema.json", Message: fmt.Sprintf(
			"chart %s: values.schema.json cannot be used: %s; skipSchemaValidation does without it", c.ChartFullPath(), tidy(err.Error()))}
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		return invalid(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return invalid(err)
	}
	schema, err := compiler.Compile(schemaURL)
	if err != nil {
		return invalid(err)
	}
	err = schema.Validate(values)
	var found *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &found):
		return invalid(err)
	}
	return &helm.Error{Kind: helm.ValuesInvalid, Message: fmt.Sprintf(
		"the values do not fit the schema of chart %s: %s", c.ChartFullPath(), findings(found))}
}

// noLoader refuses references out of a schema: with them a chart could read files and reach servers. Helm takes an URN that it does not
// know for a schema that allows everything.
type noLoader struct{}

func (noLoader) Load(reference string) (any, error) {
	if u, err := url.Parse(reference); err == nil && u.Scheme == "urn" {
		return true, nil
	}
	return nil, fmt.Errorf("it refers to %s, and references to other documents are not followed", reference)
}

// findings lists what is wrong, each with its place.
func findings(err *jsonschema.ValidationError) string {
	var all []string
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if len(e.Causes) > 0 {
			for _, c := range e.Causes {
				visit(c)
			}
			return
		}
		finding := "." + strings.Join(e.InstanceLocation, ".") + ": " + expectation(e.ErrorKind)
		if !slices.Contains(all, finding) {
			all = append(all, finding)
		}
	}
	visit(err)
	if more := len(all) - mostFindings; more > 0 {
		all = append(all[:mostFindings], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// expectation says what a schema wants, without the value that it has got.
func expectation(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %s", k.Want)
	case *kind.Format:
		return fmt.Sprintf("must have the format %s", k.Want)
	case *kind.Minimum:
		f, _ := k.Want.Float64()
		return fmt.Sprintf("must be at least %v", f)
	case *kind.Maximum:
		f, _ := k.Want.Float64()
		return fmt.Sprintf("must be at most %v", f)
	case *kind.ExclusiveMinimum:
		f, _ := k.Want.Float64()
		return fmt.Sprintf("must be more than %v", f)
	case *kind.ExclusiveMaximum:
		f, _ := k.Want.Float64()
		return fmt.Sprintf("must be less than %v", f)
	case *kind.MultipleOf:
		f, _ := k.Want.Float64()
		return fmt.Sprintf("must be a multiple of %v", f)
	case *kind.ContentEncoding:
		return fmt.Sprintf("must be encoded as %s", k.Want)
	case *kind.ContentMediaType:
		return fmt.Sprintf("must be of the media type %s", k.Want)
	case *kind.ContentSchema, *kind.InvalidJsonValue:
		return "is not valid"
	case *kind.PropertyNames:
		return "has a property with a name that is not allowed"
	default:
		// The rest tells of types, of counts and of what the schema says.
		text := (&jsonschema.ValidationError{ErrorKind: k}).Error()
		return strings.TrimPrefix(text, "at '': ")
	}
}
