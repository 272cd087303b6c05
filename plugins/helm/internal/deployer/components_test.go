package deployer_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/components"
)

const component = "example.com/shop"

// mustBeOf checks which version of the component an item has deployed, and of which version the chart is.
func (w *world) mustBeOf(item *landscaper.DeployItem, version, chart string) {
	w.Helper()
	want := &v1alpha1.ComponentResource{
		Component: component, Version: version, Resource: map[string]string{"name": "chart"},
	}
	got := w.status(item).Chart
	if got == nil || got.Version != chart {
		w.Fatalf("expected chart %s in the status, but found %+v", chart, got)
	}
	if diff := cmp.Diff(want, got.Resource); diff != "" {
		w.Errorf("the resource in the status: -want +got:\n%s", diff)
	}
}

// TestChartsOfComponents: they are foreseen, deployed, upgraded and removed as others, from a registry with a login.
// What else may be in a component is in the tests of package chartsource.
// Rule (helm.md#charts-of-components): A version of a component with the same chart makes no revision; the provider
// status shows the version.
func TestChartsOfComponents(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]struct {
		stored     components.Form
		descriptor string
	}{
		"old library":            {components.AsBlob, components.DescriptorTar},
		"new library, index":     {components.AsManifest, components.DescriptorJSON},
		"artifact set with dots": {components.AsDots, components.LegacyDescriptorTar},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(w *world) {
				registry := w.push()
				place := components.Place{Registry: registry, Prefix: "team"}
				for version, content := range map[string][]byte{
					"1.0.0": charts.Pack("plain"), "1.1.0": charts.Pack("plain"),
					"2.0.0": charts.Pack("plain", charts.Version("2.0.0"), configMap("more", "")),
				} {
					place.Push(w, components.Version{
						Name: component, Version: version, DescriptorType: form.descriptor,
						Resources: []components.Resource{{Name: "chart", Content: content, Stored: form.stored}},
					})
				}
				w.Call.Credentials = forRegistry(registry)
				w.Call.Context = &landscaper.Context{ContextConfiguration: landscaper.ContextConfiguration{
					RepositoryContext: &runtime.RawExtension{Raw: w.Marshal(place.Context())},
				}}
				config := func(version string) object {
					return w.config(object{"resourceRef": components.Key(component, version, "chart")}, nil)
				}

				item := w.item(config("1.0.0"))
				w.mustRender(item, "", "", "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
				w.mustChange(item, "create ConfigMap %s/shop-plain-greeting", "create ConfigMap %s/shop-plain-settings")
				w.MustSucceed(item)
				w.mustGreet("hello")
				w.mustBeOf(item, "1.0.0", "1.0.0")

				w.setConfig(item, config("1.1.0")) // with the same chart
				w.Requests.Take()
				w.mustChange(item)
				w.MustSucceed(item)
				w.mustBeOf(item, "1.1.0", "1.0.0")
				w.mustWriteNothing()

				w.setConfig(item, config("2.0.0"))
				w.mustChange(item, "create ConfigMap %s/more",
					"update ConfigMap %s/shop-plain-greeting", "update ConfigMap %s/shop-plain-settings")
				w.MustSucceed(item)
				w.mustBeOf(item, "2.0.0", "2.0.0")
				w.mustHave("1 superseded", "2 deployed")

				registry.Forget()
				w.clock.SetTime(w.clock.Now().Add(time.Minute)) // what was looked up is old
				plugintest.NewJob(item)
				w.MustSucceed(item)
				asked := slices.DeleteFunc(registry.WithCredentials(), func(r chartserver.Request) bool {
					return r.Path == "/token"
				})
				if len(asked) != 1 || !strings.Contains(asked[0].Path, string(chartserver.Manifest)) {
					w.Errorf("expected one request of a job without a change, for a manifest, but found %v", asked)
				}

				// Nothing of the component or of its place is needed to get rid of it.
				w.Call.Credentials, w.Call.Context = nil, nil
				w.MustDelete(item)
				w.mustGreet(nil)
			})
		})
	}
}
