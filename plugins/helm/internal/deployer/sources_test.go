package deployer_test

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
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

// TestSources deploys a chart from each place that there is. What references and ranges of versions mean is in the
// tests of package chartsource.
// Rule (helm.md#charts): A chart comes from each source of the table.
func TestSources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		// source starts what has the chart, gives the world credentials for it, and returns chart and version.
		source func(w *world) (chart object, version string)
	}{
		"archive.raw": {reason: "in the configuration", source: func(*world) (object, string) {
			return chart("plain"), "1.0.0"
		}},
		"archive.remote": {
			reason: "at an address, with credentials and a private authority",
			source: func(w *world) (object, string) {
				files := chartserver.StartFiles(w, chartserver.Options{
					Auth: chartserver.Basic, User: user, Password: password,
				})
				url := files.Put("plain.tgz", charts.Pack("plain", charts.Version("1.1.0")))
				w.Call.Credentials = forAddress(files.URL(), files.CA())
				return object{"archive": object{"remote": object{"url": url}}}, "1.1.0"
			},
		},
		"ref with a tag": {reason: "in a registry", source: func(w *world) (object, string) {
			registry := w.push()
			w.Call.Credentials = forRegistry(registry)
			return object{"ref": registry.Ref("charts/plain", "1.0.0")}, "1.0.0"
		}},
		"helmChartRepo": {reason: "the version that is named", source: func(w *world) (object, string) {
			repository := w.publish()
			w.Call.Credentials = forAddress(repository.URL(), repository.CA())
			return object{"helmChartRepo": object{
				"helmChartRepoUrl": repository.URL(), "helmChartName": "plain", "helmChartVersion": "1.0.0",
			}}, "1.0.0"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(w *world) {
				source, version := c.source(w)
				item := w.item(w.config(source, object{"greeting": "from " + name}))
				w.MustSucceed(item)
				w.mustGreet("from " + name)
				got := w.status(item).Chart
				if got == nil || got.Name != "plain" || got.Version != version || !strings.HasPrefix(got.Digest, "sha256:") {
					w.Errorf("%s: expected version %s in the status, but found %+v", c.reason, version, got)
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
	retried := []landscaper.ErrorCode(nil)
	repositoryOf := func(w *world, name string) object {
		repository := w.publish()
		w.Call.Credentials = forAddress(repository.URL(), repository.CA())
		return object{"helmChartRepo": object{
			"helmChartRepoUrl": repository.URL(), "helmChartName": name, "helmChartVersion": "1.0.0",
		}}
	}
	for name, c := range map[string]struct {
		reason string
		source func(w *world) object
		codes  []landscaper.ErrorCode
		parts  []string
	}{
		"resourceRef": {
			reason: "the Context does not say where components are",
			source: func(*world) object {
				return object{"resourceRef": components.Key("example.com/shop", "1.2.3", "chart")}
			},
			codes: configProblem,
			parts: []string{"ChartComponentInvalid", "example.com/shop 1.2.3", "repositoryContext"},
		},
		"missing": {
			reason: "it may be published later", source: func(w *world) object { return repositoryOf(w, "none") },
			codes: retried, parts: []string{"ChartNotFound", "none"},
		},
		"no credentials": {
			reason: "the Context has none",
			source: func(w *world) object { return object{"ref": w.push().Ref("charts/plain", "1.0.0")} },
			codes:  configProblem, parts: []string{"ChartCredentialsMissing", "registryPullSecrets"},
		},
		"no archive": {
			reason: "it is something else", source: func(w *world) object {
				files := chartserver.StartFiles(w, chartserver.Options{PlainHTTP: true})
				return object{"archive": object{"remote": object{"url": files.Put("plain.tgz", []byte("<html>"))}}}
			},
			codes: configProblem, parts: []string{"ChartArchiveInvalid"},
		},
		"unreachable": {
			reason: "a server may come back", source: func(*world) object {
				return object{"archive": object{"remote": object{"url": "http://127.0.0.1:1/plain.tgz"}}}
			},
			codes: retried, parts: []string{"ChartUnavailable", "127.0.0.1:1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(c.source(w), nil))
			result := w.call(item)
			if result.Failed == nil {
				t.Fatalf("%s: expected a failure, but found: %s", c.reason, result)
			}
			w.MustFail(result, c.codes)
			for _, part := range c.parts {
				if text := result.String(); !strings.Contains(text, part) {
					t.Errorf("%s: expected %q, but found: %s", c.reason, part, text)
				}
			}
			w.mustWriteNothing()
			w.MustDelete(item)
		})
	}
}
