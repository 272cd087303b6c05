package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// validate returns the Config of a provider configuration, or all mistakes in it. written is the document before
// decoding.
func validate(document *v1alpha1.ProviderConfiguration, written *runtime.RawExtension) (*Config, field.ErrorList) {
	c := &Config{
		Release:         helm.Release{Namespace: document.Namespace, Name: document.Name},
		CreateNamespace: document.CreateNamespace,
		HelmDeployment:  document.HelmDeployment == nil || *document.HelmDeployment,
		UpdateStrategy:  document.UpdateStrategy,
	}
	var problems, p field.ErrorList
	c.Source, problems = chartsource.Parse(document.Chart, field.NewPath("chart"))
	problems = append(problems, validateRelease(c.Release)...)
	c.Values, p = canonicalValues(document.Values, field.NewPath("values"))
	problems = append(problems, p...)
	problems = append(problems, c.setOptions(document.HelmDeploymentConfig, operationsOf(written))...)
	problems = append(problems,
		job.ValidateChoice(document.UpdateStrategy, managedresource.UpdateStrategies(), field.NewPath("updateStrategy"))...)

	c.IgnoreDifferences, p = ignore.ParseRules(document.IgnoreDifferences, field.NewPath("ignoreDifferences"))
	problems = append(problems, p...)
	c.Checks, p = readiness.ParseChecks(document.ReadinessChecks, field.NewPath("readinessChecks"))
	problems = append(problems, p...)
	problems = append(problems, c.setExports(document, exportsAreList(written))...)
	problems = append(problems, job.ValidateSchedule(document.ContinuousReconcile, field.NewPath("continuousReconcile"))...)

	// The groups of the item's own deletion are read only at the deletion; a mistake in them is reported here, in time
	// for a correction.
	_, p = prune.ParseGroups(document.DeletionGroups, field.NewPath("deletionGroups"))
	problems = append(problems, p...)
	c.DeletionDuringUpdate, p = prune.ParseGroups(document.DeletionGroupsDuringUpdate, field.NewPath("deletionGroupsDuringUpdate"))
	problems = append(problems, p...)
	if len(problems) > 0 {
		return nil, problems
	}
	c.Ignored = c.ignored(document)
	return c, nil
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
