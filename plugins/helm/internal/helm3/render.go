package helm3

import (
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/client-go/discovery"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// render is the action Render.
func (o *operation) render() (*helm.Result, error) {
	c, definitions, err := o.renderer.Prepare()
	if err != nil {
		return nil, err
	}
	capabilities, err := o.capabilities(c)
	if err != nil {
		return nil, err
	}
	var lookups engine.ClientProvider
	if o.cluster != nil {
		lookups = o.cluster
	}
	result, err := o.renderer.Render(c, capabilities, lookups)
	if err != nil {
		return nil, err
	}
	result.Definitions = definitions
	if result.Objects, err = o.show(result.Objects); err == nil && o.req.Former.Release != (helm.Release{}) {
		err = o.objects.Try(result)
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
