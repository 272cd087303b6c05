package helm3

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// renderOnly is the action Render, with Helm's steps for a revision.
func (o *operation) renderOnly() (*helm.Result, error) {
	c, definitions, err := o.prepare()
	if err != nil {
		return nil, err
	}
	result := &helm.Result{Chart: metadataOf(c), Definitions: definitions}
	capabilities, err := o.capabilities(c)
	if err != nil {
		return nil, err
	}
	o.progress("Render", "Rendering chart %s", nameOf(c))
	o.enter(rendering)
	files, err := o.render(c, capabilities)
	if err != nil {
		return nil, err
	}
	if o.req.Revision == 0 {
		result.Ignored = dropNoObjects(files)
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	if result.Hooks, err = o.hooksOf(hooks); err != nil {
		return nil, err
	}
	var objects []helm.Object
	for _, m := range manifests {
		found, err := objectsOf(m.Name, m.Content)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	o.enter(preparing)
	if result.Objects, err = o.show(objects); err == nil && o.req.Former.Release != (helm.Release{}) {
		err = o.objects.try(result)
	}
	return result, err
}

// capabilities returns those of the cluster, or Helm's defaults without one.
func (o *operation) capabilities(c *chart.Chart) (*chartutil.Capabilities, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	if o.cluster == nil {
		return capabilities, nil
	}
	version, err := o.checkCluster(c)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = chartutil.KubeVersion{
		Version: version.GitVersion, Major: version.Major, Minor: version.Minor,
	}
	capabilities.APIVersions, err = action.GetVersionSet(o.cluster.discovery)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("ask the target cluster for its kinds: %w", err)
	}
	return capabilities, nil
}

// render returns the rendered templates, without notes.
func (o *operation) render(c *chart.Chart, capabilities *chartutil.Capabilities) (files map[string]string, err error) {
	_, given, err := o.combine(c)
	if err != nil {
		return nil, err
	}
	upgrade := o.req.Revision > 1
	options := chartutil.ReleaseOptions{
		Name: o.req.Release.Name, Namespace: o.req.Release.Namespace, Revision: o.req.Revision,
		IsUpgrade: upgrade, IsInstall: !upgrade,
	}
	values, err := chartutil.ToRenderValuesWithSchemaValidation(c, given, options, capabilities, true) // see validate
	if err != nil {
		return nil, err
	}
	if o.cluster != nil {
		files, err = engine.RenderWithClientProvider(c, values, o.cluster)
	} else {
		files, err = engine.Render(c, values)
	}
	size := 0
	for name, content := range files {
		if size += len(content); strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	if int64(size) > o.req.Limits.RenderedBytes {
		return nil, o.tooLarge("the rendered templates")
	}
	return files, err
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
