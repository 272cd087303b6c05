package deployer_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/components"
)

const (
	user     = "somebody"
	password = "pass-word-1"
)

// push starts a registry that wants a token, and has the chart plain. others are servers that the plugin is to know
// besides.
func (w *world) push(others ...any) *chartserver.Registry {
	w.Helper()
	registry := chartserver.StartRegistry(w, chartserver.Options{Auth: chartserver.Bearer, User: user, Password: password})
	if _, err := registry.Push("charts/plain", "1.0.0", charts.Pack("plain")); err != nil {
		w.Fatal(err)
	}
	registry.Forget()
	w.Configure(object{"registries": append(others, object{"host": registry.Host(), "caData": string(registry.CA())})})
	return registry
}

func forRegistry(registry *chartserver.Registry) *sdk.Credentials {
	return &sdk.Credentials{Registries: []sdk.RegistryCredentials{
		{Secret: "registry", DockerConfig: chartserver.DockerConfig(registry.Host(), user, password)},
	}}
}

// publish starts a repository with basic authentication and a certificate of a private authority, which has two
// versions of the chart plain.
func (w *world) publish() *chartserver.Repository {
	w.Helper()
	repository := chartserver.StartRepository(w, chartserver.Options{
		Auth: chartserver.Basic, User: user, Password: password, Path: "/stable",
	})
	for _, version := range []string{"1.0.0", "1.2.3", "2.0.0"} {
		if err := repository.Add(charts.Pack("plain", charts.Version(version))); err != nil {
			w.Fatal(err)
		}
	}
	return repository
}

func forAddress(url string, ca []byte) *sdk.Credentials {
	return &sdk.Credentials{ChartRepositories: []sdk.ChartRepositoryCredentials{
		{URL: url, CAData: ca, AuthHeader: chartserver.BasicAuth(user, password)},
	}}
}

// ofRepository returns a chart of a new repository, and gives the world credentials for it.
func (w *world) ofRepository(name string) object {
	w.Helper()
	repository := w.publish()
	w.Call.Credentials = forAddress(repository.URL(), repository.CA())
	return object{"helmChartRepo": object{
		"helmChartRepoUrl": repository.URL(), "helmChartName": name, "helmChartVersion": "1.0.0",
	}}
}

// remote is a chart at an address.
func remote(url string) object { return object{"archive": object{"remote": object{"url": url}}} }

// TestSources deploys a chart from each place that there is. What references and ranges of versions mean is in the
// tests of package chartsource.
// Rule (helm.md#charts): A chart comes from each source of the table.
func TestSources(t *testing.T) {
	t.Parallel()
	// Each source starts what has the chart, and gives the world credentials for it.
	for name, source := range map[string]func(w *world) object{
		"archive.raw": func(*world) object { return chart("plain") },
		"archive.remote": func(w *world) object {
			files := chartserver.StartFiles(w, chartserver.Options{Auth: chartserver.Basic, User: user, Password: password})
			w.Call.Credentials = forAddress(files.URL(), files.CA())
			return remote(files.Put("plain.tgz", charts.Pack("plain")))
		},
		"ref": func(w *world) object {
			registry := w.push()
			w.Call.Credentials = forRegistry(registry)
			return object{"ref": registry.Ref("charts/plain", "1.0.0")}
		},
		"helmChartRepo": func(w *world) object { return w.ofRepository("plain") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(w *world) {
				item := w.item(w.config(source(w), object{"greeting": "from " + name}))
				w.MustSucceed(item)
				w.mustGreet("from " + name)
				got := w.status(item).Chart
				if got == nil || got.Name != "plain" || got.Version != "1.0.0" || !strings.HasPrefix(got.Digest, "sha256:") {
					w.Errorf("expected version 1.0.0 in the status, but found %+v", got)
				}
				// Nothing of the chart or of its place is needed to get rid of it.
				w.Call.Credentials = nil
				w.MustDelete(item)
				w.mustGreet(nil)
			})
		})
	}
}

// TestSourcesThatFail: the error says what is wrong, and is tried again if it may go away by itself. All such errors
// are in the tests of packages config and chartsource.
// Rule (helm.md#charts): A missing chart is retried, and a broken one is not.
func TestSourcesThatFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source func(w *world) object
		codes  []landscaper.ErrorCode
		parts  []string
	}{
		"resourceRef without a place": {
			func(*world) object {
				return object{"resourceRef": components.Key("example.com/shop", "1.2.3", "chart")}
			},
			configProblem, []string{"ChartComponentInvalid", "example.com/shop 1.2.3", "repositoryContext"},
		},
		"missing": {func(w *world) object { return w.ofRepository("none") }, nil, []string{"ChartNotFound", "none"}},
		"no credentials": {
			func(w *world) object { return object{"ref": w.push().Ref("charts/plain", "1.0.0")} },
			configProblem, []string{"ChartCredentialsMissing", "registryPullSecrets"},
		},
		"no archive": {
			func(w *world) object {
				files := chartserver.StartFiles(w, chartserver.Options{PlainHTTP: true})
				return remote(files.Put("plain.tgz", []byte("<html>")))
			}, configProblem, []string{"ChartArchiveInvalid"},
		},
		"unreachable": {
			func(*world) object { return remote("http://127.0.0.1:1/plain.tgz") },
			nil, []string{"ChartUnavailable", "127.0.0.1:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(c.source(w), nil))
			w.MustFail(w.call(item), c.codes, c.parts...)
			w.mustWriteNothing()
			w.MustDelete(item)
		})
	}
}

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
	bothModes(t, func(w *world) {
		registry := w.push()
		place := components.Place{Registry: registry, Prefix: "team"}
		for version, content := range map[string][]byte{
			"1.0.0": charts.Pack("plain"), "1.1.0": charts.Pack("plain"),
			"2.0.0": charts.Pack("plain", charts.Version("2.0.0"), configMap("more", "")),
		} {
			place.Push(w, components.Version{
				Name: component, Version: version, DescriptorType: components.DescriptorJSON,
				Resources: []components.Resource{{Name: "chart", Content: content, Stored: components.AsManifest}},
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
		w.mustRender(item, 0, "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
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
}
