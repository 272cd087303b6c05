package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/objectconfig"
)

// validate returns the Config of a provider configuration, or all mistakes in it.
func validate(d *document) (*Config, field.ErrorList) {
	from := d.Config
	c := &Config{
		Release:         helm.Release{Namespace: from.Namespace, Name: from.Name},
		CreateNamespace: from.CreateNamespace,
		HelmDeployment:  from.HelmDeployment == nil || *from.HelmDeployment,
		Unknown:         d.Unknown,
	}
	var problems, p field.ErrorList
	c.Source, problems = chartsource.Parse(from.Chart, field.NewPath("chart"))
	problems = append(problems, validateRelease(c.Release)...)
	c.Values, p = canonicalValues(from.Values, field.NewPath("values"))
	problems = append(problems, p...)
	problems = append(problems, c.setOptions(from.HelmDeploymentConfig, operationsOf(d.Written))...)
	c.Objects, p = objectconfig.Shared{
		UpdateStrategy: from.UpdateStrategy, IgnoreDifferences: from.IgnoreDifferences,
		ReadinessChecks: from.ReadinessChecks, ContinuousReconcile: from.ContinuousReconcile,
		DeletionGroups: from.DeletionGroups, DeletionGroupsDuringUpdate: from.DeletionGroupsDuringUpdate,
	}.Parse()
	problems = append(problems, p...)
	problems = append(problems, c.setExports(from, d.At(objectconfig.ExportsPath))...)
	if len(problems) == 0 {
		c.Ignored = c.ignored(from)
	}
	return c, problems
}

// maxOfName bounds the name of a release, as in Helm: charts append to it in the names of objects.
const maxOfName = 53

// validateRelease reports invalid names of a release.
func validateRelease(r helm.Release) field.ErrorList {
	var problems field.ErrorList
	name, namespace := field.NewPath("name"), field.NewPath("namespace")
	switch texts := validation.IsDNS1123Subdomain(r.Name); {
	case r.Name == "":
		problems = append(problems, field.Required(name, "expected the name of the release"))
	case len(r.Name) > maxOfName:
		problems = append(problems, field.TooLong(name, r.Name, maxOfName))
	case len(texts) > 0:
		problems = append(problems, field.Invalid(name, r.Name, texts[0]))
	}
	switch texts := validation.IsDNS1123Label(r.Namespace); {
	case r.Namespace == "":
		problems = append(problems, field.Required(namespace, "expected the namespace of the release"))
	case len(texts) > 0:
		problems = append(problems, field.Invalid(namespace, r.Namespace, texts[0]))
	}
	return problems
}

// canonicalValues returns a JSON object with sorted fields and its numbers as they are written; nil for none. An
// error repeats no value: values may be secrets.
func canonicalValues(document json.RawMessage, path *field.Path) (json.RawMessage, field.ErrorList) {
	if len(document) == 0 {
		return nil, nil
	}
	wrong := func(format string, args ...any) field.ErrorList {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(format, args...))}
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var values any
	if err := decoder.Decode(&values); err != nil {
		return nil, wrong("expected a JSON object: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, wrong("expected a JSON object, but found something after it")
	}
	object, ok := values.(map[string]any)
	switch {
	case values == nil || ok && len(object) == 0:
		return nil, nil
	case !ok:
		return nil, wrong("expected an object, but found %s", describe(values))
	}
	canonical, err := json.Marshal(object)
	if err != nil {
		return nil, wrong("write as JSON: %v", err)
	}
	return canonical, nil
}

// describe names the kind of a JSON value.
func describe(value any) string {
	switch value.(type) {
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "true or false"
	default:
		return "a number"
	}
}
