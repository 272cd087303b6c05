package helm3

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// loadChart reads the chart, and refuses library charts and those without their dependencies.
func (o *operation) loadChart() ([]*loader.BufferedFile, *chart.Chart, error) {
	o.progress("LoadChart", "Loading the chart")
	files, err := o.readChart()
	if err != nil {
		return nil, nil, err
	}
	loaded, err := load(files)
	if err != nil {
		return nil, nil, err
	}
	name := nameOf(loaded)
	if loaded.Metadata.Type != "" && loaded.Metadata.Type != "application" {
		return nil, nil, failure(helm.ChartInvalid,
			"chart %s has the type %s; only application charts can be installed", name, loaded.Metadata.Type)
	}
	if err := action.CheckDependencies(loaded, loaded.Metadata.Dependencies); err != nil {
		return nil, nil, failure(helm.ChartInvalid, "chart %s is not complete: dependencies are %v; "+
			"pack the chart after `helm dependency build`, because nothing is downloaded here", name, err)
	}
	if loaded.Metadata.Deprecated {
		o.noteWarning("chart " + name + " is deprecated")
	}
	return files, loaded, nil
}

func (o *operation) readChart() ([]*loader.BufferedFile, error) {
	archive, err := os.ReadFile(o.req.Chart.Path)
	if err != nil {
		// A disk may do better the next time. The path is of no use outside of this process.
		return nil, failure(helm.ClusterFailed, "%s", strings.ReplaceAll(err.Error(), o.req.Chart.Path, "the chart"))
	}
	c := contents{limits: o.req.Limits}
	if err := c.check(bytes.NewReader(archive), ""); err != nil {
		return nil, err
	}
	files, err := loader.LoadArchiveFiles(bytes.NewReader(archive))
	if err != nil {
		return nil, failure(helm.ChartInvalid, "the chart archive cannot be read: %s; pack the chart with `helm package`", err)
	}
	return files, nil
}

// pathsOf returns the paths of a chart's files, and of its sub-charts', as in Helm's messages.
func pathsOf(c *chart.Chart) []string {
	paths := []string{c.ChartFullPath() + "/" + chartutil.SchemafileName}
	for _, files := range [][]*chart.File{c.Templates, c.Files} {
		for _, f := range files {
			paths = append(paths, c.ChartFullPath()+"/"+f.Name)
		}
	}
	for _, sub := range c.Dependencies() {
		paths = append(paths, pathsOf(sub)...)
	}
	return paths
}

func nameOf(c *chart.Chart) string { return c.Name() + " " + c.Metadata.Version }

func metadataOf(c *chart.Chart) helm.Metadata {
	return helm.Metadata{Name: c.Name(), Version: c.Metadata.Version, AppVersion: c.Metadata.AppVersion}
}

// values returns the values of the request. Numbers are floats, as in Helm's values from files. Each call returns a
// new map, for the library changes its arguments.
func (o *operation) values() (map[string]any, error) {
	values := map[string]any{}
	if len(o.req.Values) == 0 {
		return values, nil
	}
	if err := json.Unmarshal(o.req.Values, &values); err != nil {
		// An error of encoding/json about the syntax has one character at most; others have types of Go.
		return nil, failure(helm.ValuesInvalid, "the values are no JSON object: %v", err)
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}

// combine returns the values for the chart's templates, and drops the sub-charts switched off by them.
func (o *operation) combine(c *chart.Chart) (values map[string]any, given map[string]any, err error) {
	if given, err = o.values(); err != nil {
		return nil, nil, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, given); err != nil {
		return nil, nil, failure(helm.ChartInvalid, "chart %s: read its dependencies: %v", nameOf(c), err)
	}
	values, err = chartutil.CoalesceValues(c, given)
	if err != nil {
		return nil, nil, failure(helm.ValuesInvalid, "chart %s: combine the values: %v", nameOf(c), err)
	}
	return values, given, nil
}

// validate checks the combined values with the schemas of a chart. Helm's own check in its operations is switched off:
// it follows references to files and to the network.
func (o *operation) validate(c *chart.Chart, values map[string]any) error {
	if o.req.Options.SkipSchemaValidation {
		return nil
	}
	if err := o.checkReferences(c); err != nil {
		return err
	}
	if err := chartutil.ValidateAgainstSchema(c, values); err != nil {
		return failure(helm.ValuesInvalid, "the values do not fit the schema of the chart: %v", err)
	}
	return nil
}

// checkReferences refuses schemas, of a chart and its sub-charts, with references to other documents.
func (o *operation) checkReferences(c *chart.Chart) error {
	if c.Schema != nil {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
		compiler := jsonschema.NewCompiler()
		compiler.UseLoader(noLoader{o})
		if err == nil {
			err = compiler.AddResource(schemaURL, document)
		}
		if err == nil {
			_, err = compiler.Compile(schemaURL)
		}
		if err != nil {
			return failure(helm.ChartInvalid,
				"chart %s: values.schema.json cannot be used: %v; skipSchemaValidation does without it", c.ChartFullPath(), err)
		}
	}
	for _, sub := range c.Dependencies() {
		if err := o.checkReferences(sub); err != nil {
			return err
		}
	}
	return nil
}

// schemaURL is Helm's URL for the schema of a chart; relative references are resolved against it.
const schemaURL = "file:///values.schema.json"

// noLoader refuses references out of a schema: with them a chart could read files and reach servers. An unknown URN is
// a schema for everything, as in Helm.
type noLoader struct{ o *operation }

// Load is called for each document behind a reference.
func (l noLoader) Load(reference string) (any, error) {
	if u, err := url.Parse(reference); err == nil && u.Scheme == "urn" {
		l.o.noteWarning("a schema of the values refers to " + reference + ", which is not known and allows everything")
		return true, nil
	}
	return nil, fmt.Errorf("it refers to %s, and references to other documents are not followed", reference)
}

// combineValues is the action Values.
func (o *operation) combineValues() (*helm.Result, error) {
	_, c, err := o.loadChart()
	if err != nil {
		return nil, err
	}
	metadata := metadataOf(c)
	values, _, err := o.combine(c)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(values)
	if err != nil {
		return nil, failure(helm.ValuesInvalid, "chart %s: its values are no JSON: %s", nameOf(c), err)
	}
	if int64(len(content)) > o.req.Limits.RenderedBytes {
		return nil, o.tooLarge("the values")
	}
	return &helm.Result{Chart: metadata, Values: content}, nil
}

func (o *operation) tooLarge(what string) error {
	return failure(helm.LimitExceeded, "%s take more than %d bytes", what, o.req.Limits.RenderedBytes)
}
