package render

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
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
)

// Prepare loads the chart, checks the values, and returns the definitions of the chart and the enabled sub-charts. It
// needs no cluster.
func (r *Renderer) Prepare() (*chart.Chart, []helm.Object, error) {
	files, c, err := r.loadChart()
	if err != nil {
		return nil, nil, err
	}
	r.journal.Publish(c.Name(), c.Metadata.Version, c.Metadata.AppVersion)
	r.journal.Publish(pathsOf(c)...)
	other, err := load(files)
	if err != nil {
		return nil, nil, err
	}
	values, _, err := r.combine(other)
	if err != nil {
		return nil, nil, err
	}
	definitions, err := definitionsOf(other)
	if err != nil {
		return nil, nil, err
	}
	return c, definitions, r.validate(other, values)
}

// loadChart reads the chart, and refuses library charts and those without their dependencies.
func (r *Renderer) loadChart() ([]*loader.BufferedFile, *chart.Chart, error) {
	r.journal.Progress("LoadChart", "Loading the chart")
	files, err := r.readChart()
	if err != nil {
		return nil, nil, err
	}
	loaded, err := load(files)
	if err != nil {
		return nil, nil, err
	}
	name := NameOf(loaded)
	if loaded.Metadata.Type != "" && loaded.Metadata.Type != "application" {
		return nil, nil, journal.Failure(helm.ChartInvalid,
			"chart %s has the type %s; only application charts can be installed", name, loaded.Metadata.Type)
	}
	if err := action.CheckDependencies(loaded, loaded.Metadata.Dependencies); err != nil {
		return nil, nil, journal.Failure(helm.ChartInvalid, "chart %s lacks dependencies: %v; "+
			"pack the chart after `helm dependency build`: Pergola downloads none", name, err)
	}
	if loaded.Metadata.Deprecated {
		r.journal.NoteWarning("chart " + name + " is deprecated")
	}
	return files, loaded, nil
}

func (r *Renderer) readChart() ([]*loader.BufferedFile, error) {
	archive, err := os.ReadFile(r.req.Chart.Path)
	if err != nil {
		// A disk may do better the next time. The path is of no use outside of this process.
		return nil, journal.Failure(helm.ClusterFailed, "%s", strings.ReplaceAll(err.Error(), r.req.Chart.Path, "the chart"))
	}
	c := contents{limits: r.req.Limits}
	if err := c.check(bytes.NewReader(archive), ""); err != nil {
		return nil, err
	}
	files, err := loader.LoadArchiveFiles(bytes.NewReader(archive))
	if err != nil {
		return nil, journal.Failure(helm.ChartInvalid,
			"the chart archive cannot be read: %s; pack the chart with `helm package`", err)
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

// NameOf returns the name and the version of a chart, for texts.
func NameOf(c *chart.Chart) string { return c.Name() + " " + c.Metadata.Version }

// MetadataOf returns the metadata of a chart.
func MetadataOf(c *chart.Chart) helm.Metadata {
	return helm.Metadata{Name: c.Name(), Version: c.Metadata.Version, AppVersion: c.Metadata.AppVersion}
}

// Values returns the values of the request. Numbers are floats, as in Helm's values from files. Each call returns a
// new map, for the library changes its arguments.
func (r *Renderer) Values() (map[string]any, error) {
	values := map[string]any{}
	if len(r.req.Values) == 0 {
		return values, nil
	}
	if err := json.Unmarshal(r.req.Values, &values); err != nil {
		// An error of encoding/json about the syntax has one character at most; others have types of Go.
		return nil, journal.Failure(helm.ValuesInvalid, "values: expected a JSON object: %v", err)
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}

// combine returns the values for the chart's templates, and drops the sub-charts switched off by them.
func (r *Renderer) combine(c *chart.Chart) (values map[string]any, given map[string]any, err error) {
	if given, err = r.Values(); err != nil {
		return nil, nil, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, given); err != nil {
		return nil, nil, journal.Failure(helm.ChartInvalid, "chart %s: read its dependencies: %v", NameOf(c), err)
	}
	values, err = chartutil.CoalesceValues(c, given)
	if err != nil {
		return nil, nil, journal.Failure(helm.ValuesInvalid, "chart %s: combine the values: %v", NameOf(c), err)
	}
	return values, given, nil
}

// validate checks the combined values with the schemas of a chart. Helm's own check in its operations is switched off:
// it follows references to files and to the network.
func (r *Renderer) validate(c *chart.Chart, values map[string]any) error {
	if r.req.Options.SkipSchemaValidation {
		return nil
	}
	if err := r.checkReferences(c); err != nil {
		return err
	}
	if err := chartutil.ValidateAgainstSchema(c, values); err != nil {
		return journal.Failure(helm.ValuesInvalid, "the values do not fit the schema of the chart: %v", err)
	}
	return nil
}

// checkReferences refuses schemas, of a chart and its sub-charts, with references to other documents.
func (r *Renderer) checkReferences(c *chart.Chart) error {
	if c.Schema != nil {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
		compiler := jsonschema.NewCompiler()
		compiler.UseLoader(noLoader{r.journal})
		if err == nil {
			err = compiler.AddResource(schemaURL, document)
		}
		if err == nil {
			_, err = compiler.Compile(schemaURL)
		}
		if err != nil {
			return journal.Failure(helm.ChartInvalid,
				"chart %s: values.schema.json cannot be used: %v; repair it, or set skipSchemaValidation", c.ChartFullPath(), err)
		}
	}
	for _, sub := range c.Dependencies() {
		if err := r.checkReferences(sub); err != nil {
			return err
		}
	}
	return nil
}

// schemaURL is Helm's URL for the schema of a chart; relative references are resolved against it.
const schemaURL = "file:///values.schema.json"

// noLoader refuses references out of a schema: with them a chart could read files and reach servers. An unknown URN is
// a schema for everything, as in Helm.
type noLoader struct{ journal *journal.Journal }

// Load is called for each document behind a reference.
func (l noLoader) Load(reference string) (any, error) {
	if u, err := url.Parse(reference); err == nil && u.Scheme == "urn" {
		l.journal.NoteWarning("a schema of the values refers to the unknown " + reference + ", and allows any value there")
		return true, nil
	}
	return nil, fmt.Errorf("it refers to %s, and references to other documents are not followed", reference)
}

// CombineValues is the action Values.
func (r *Renderer) CombineValues() (*helm.Result, error) {
	_, c, err := r.loadChart()
	if err != nil {
		return nil, err
	}
	metadata := MetadataOf(c)
	values, _, err := r.combine(c)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(values)
	if err != nil {
		return nil, journal.Failure(helm.ValuesInvalid, "chart %s: its values are no JSON: %s", NameOf(c), err)
	}
	if int64(len(content)) > r.req.Limits.RenderedBytes {
		return nil, r.tooLarge("the values")
	}
	return &helm.Result{Chart: metadata, Values: content}, nil
}

func (r *Renderer) tooLarge(what string) error {
	return journal.Failure(helm.LimitExceeded, "%s exceed the limit of %d bytes", what, r.req.Limits.RenderedBytes)
}
