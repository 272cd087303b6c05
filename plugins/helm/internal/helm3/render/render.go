// Package render reads charts within limits, combines and checks their values, and renders them. Charts are of foreign
// origin, and may be hostile.
package render

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
)

// Renderer reads the chart of a request, and renders it.
type Renderer struct {
	req     *helm.Request
	journal *journal.Journal
}

// New returns the renderer of a request.
func New(req *helm.Request, j *journal.Journal) *Renderer { return &Renderer{req: req, journal: j} }

// Render renders a chart with Helm's steps for a revision, but without its notes. Without lookups templates find
// nothing in the cluster.
func (r *Renderer) Render(
	c *chart.Chart, capabilities *chartutil.Capabilities, lookups engine.ClientProvider,
) (*helm.Result, error) {
	r.journal.Progress("Render", "Rendering chart %s", NameOf(c))
	r.journal.Enter(journal.Rendering)
	result := &helm.Result{Chart: MetadataOf(c)}
	files, err := r.renderFiles(c, capabilities, lookups)
	if err != nil {
		return nil, err
	}
	if r.req.Revision == 0 {
		result.Ignored = dropNoObjects(files)
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	if result.Hooks, err = r.Hooks(hooks); err != nil {
		return nil, err
	}
	for _, m := range manifests {
		found, err := Objects(m.Name, m.Content)
		if err != nil {
			return nil, err
		}
		result.Objects = append(result.Objects, found...)
	}
	r.journal.Enter(journal.Preparing)
	return result, nil
}

func (r *Renderer) renderFiles(
	c *chart.Chart, capabilities *chartutil.Capabilities, lookups engine.ClientProvider,
) (files map[string]string, err error) {
	_, given, err := r.combine(c)
	if err != nil {
		return nil, err
	}
	upgrade := r.req.Revision > 1
	options := chartutil.ReleaseOptions{
		Name: r.req.Release.Name, Namespace: r.req.Release.Namespace, Revision: r.req.Revision,
		IsUpgrade: upgrade, IsInstall: !upgrade,
	}
	values, err := chartutil.ToRenderValuesWithSchemaValidation(c, given, options, capabilities, true) // see validate
	if err != nil {
		return nil, err
	}
	if lookups != nil {
		files, err = engine.RenderWithClientProvider(c, values, lookups)
	} else {
		files, err = engine.Render(c, values)
	}
	size := 0
	for name, content := range files {
		if size += len(content); strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	if err := r.CheckSize(size); err != nil {
		return nil, err
	}
	return files, err
}

// CheckSize bounds the rendered templates.
func (r *Renderer) CheckSize(size int) error {
	if int64(size) > r.req.Limits.RenderedBytes {
		return r.tooLarge("the rendered templates")
	}
	return nil
}

// dropNoObjects removes the parts without a Kubernetes object from rendered files, for Helm would refuse them, and
// returns their templates.
func dropNoObjects(files map[string]string) []string {
	var ignored []string
	for name, content := range files {
		if strings.HasPrefix(path.Base(name), "_") { // Helm leaves them out
			continue
		}
		parts := releaseutil.SplitManifests(content)
		var objects []string
		for i := range len(parts) {
			if part := parts[fmt.Sprintf("manifest-%d", i)]; !isNoObject(name, part) {
				objects = append(objects, part)
			}
		}
		if len(objects) < len(parts) {
			files[name] = strings.Join(objects, "\n---\n")
			ignored = append(ignored, name)
		}
	}
	slices.Sort(ignored)
	return ignored
}

// isNoObject reports whether a rendered text was never meant as an object: a plain text, a list, or fields without
// apiVersion and kind. Invalid YAML in a YAML file is a mistake.
func isNoObject(template, text string) bool {
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return !slices.Contains([]string{".yaml", ".yml", ".json", ".tpl"}, path.Ext(template))
	}
	var fields map[string]any
	if json.Unmarshal(content, &fields) != nil {
		return true
	}
	return fields != nil && fields["kind"] == nil && fields["apiVersion"] == nil
}
