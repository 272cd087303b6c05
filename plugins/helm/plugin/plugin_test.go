package plugin_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// wrongOptions is the variable of the environment that has the program of the test served with options that make no
// sense.
const wrongOptions = "PERGOLA_TEST_WRONG_OPTIONS"

// TestMain makes a helm plugin of the test's own program, since go test never starts it without arguments: a host does,
// and a plugin that starts a process of Helm.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1:
		os.Exit(m.Run())
	case os.Getenv(wrongOptions) != "":
		plugin.Serve("test", plugin.WithResolver("ref", chart.ResolverFunc(resolve)),
			plugin.WithResolver(chart.FromResource, nil))
	default:
		plugin.Serve("test", plugin.WithResolver(chart.ResourceRef, chart.ResolverFunc(resolve)))
	}
}

// resolve is a resolver that knows nothing but texts.
func resolve(_ context.Context, req *chart.ResolveRequest) (*chart.Resolved, error) {
	switch text := req.Chart.ResourceRef; text {
	case "broken":
		return &chart.Resolved{Archive: io.NopCloser(bytes.NewReader(packed("no chart"))), From: "the test"}, nil
	case "elsewhere":
		return &chart.Resolved{Chart: &v1alpha1.Chart{Ref: "no reference"}}, nil
	default:
		return nil, sdk.ConfigurationError("ComponentMissing", "there is no component %q for %s", text, req.DeployItem.Name)
	}
}

// packed is a gzipped text, which is as much of an archive as can be told from outside.
func packed(text string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err) //nolint:forbidigo // memory can be written to
	}
	return out.Bytes()
}

func start(t *testing.T) *sdktest.Plugin {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return sdktest.Start(t, program, "HOME="+t.TempDir())
}

func TestInfo(t *testing.T) {
	t.Parallel()
	info := start(t).Info()
	types := []landscaper.DeployItemType{v1alpha1.Type}
	if info.Name != "helm" || info.Version != "test" || !slices.Equal(info.Types, types) {
		t.Errorf("found %s %s for %v", info.Name, info.Version, info.Types)
	}
	want := sdktest.Capabilities{
		SeparateDocuments: true, WatchItems: true,
		Render: true, Diff: true, Validate: true, Configure: true, Watch: true, ForceReconcile: true,
		CheckHealth: true, ContextCredentials: true, ContextOCMConfig: true, LatePickUp: true, ScheduleInConfig: true,
		HookTypes: []string{string(hook.ShouldReconcile)},
	}
	if diff := cmp.Diff(want, info.Capabilities); diff != "" {
		t.Errorf("capabilities: -want +got:\n%s", diff)
	}
	if len(info.ConfigSchema) == 0 || len(info.ProviderConfigSchemas[v1alpha1.Type]) == 0 {
		t.Error("expected both schemas to be published")
	}
}

// TestCharts: a chart goes from the resolver or the configuration to a process of Helm, and what is wrong with it comes
// back.
func TestCharts(t *testing.T) {
	t.Parallel()
	helm := start(t)
	raw := func(archive []byte) map[string]any {
		return map[string]any{"archive": map[string]any{"raw": base64.StdEncoding.EncodeToString(archive)}}
	}
	for name, tc := range map[string]struct {
		reason string
		chart  map[string]any
		want   []string
	}{
		"refused": {
			reason: "the words of the resolver reach the user", chart: map[string]any{"resourceRef": "shop"},
			want: []string{`there is no component "shop" for `},
		},
		"elsewhere": {
			reason: "an answer of a resolver is checked", chart: map[string]any{"resourceRef": "elsewhere"},
			want: []string{"expected a reference to a chart"},
		},
		"resolved": {reason: "a chart of a resolver is read by Helm", chart: map[string]any{"resourceRef": "broken"}},
		"given":    {reason: "a given one is, too", chart: raw(packed("no chart"))},
		"hostile":  {reason: "its harm ends its process and no other", chart: raw(charts.Hostile("zip-bomb"))},
		"no resolver": {
			reason: "the user is told the way out", chart: map[string]any{"fromResource": map[string]any{}},
			want: []string{"chart.fromResource", "needs a resolver", "chart.ref"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := sdktest.DeployItem(v1alpha1.Type, map[string]any{
				"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ProviderConfigurationKind,
				"chart": tc.chart, "name": "shop", "namespace": "shop", "helmDeployment": false,
			})
			result := helm.Reconcile(t.Context(), sdktest.Call{DeployItem: item, Target: nobody(t)})
			if result.Failed == nil || !slices.Contains(result.Failed.Codes(), landscaper.ErrorConfigurationProblem) {
				t.Fatalf("%s: expected a mistake of the user, but found: %s", tc.reason, result)
			}
			for _, want := range tc.want {
				if !strings.Contains(result.Failed.Error(), want) {
					t.Errorf("%s: expected %q, but found: %s", tc.reason, want, result)
				}
			}
		})
	}
}

// nobody is a target whose server knows nothing.
func nobody(t *testing.T) *sdk.Target {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	content, err := json.Marshal(map[string]any{"kubeconfig": `
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
clusters: [{name: nobody, cluster: {server: "` + server.URL + `"}}]
users: [{name: nobody, user: {token: none}}]
`})
	if err != nil {
		t.Fatal(err)
	}
	return &sdk.Target{Name: "nobody", Type: landscaper.KubernetesClusterTargetType, Content: content}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	helm := start(t)
	const document = "apiVersion: helm.pergola.dev/v1alpha1\nkind: HelmConfiguration\nworkers: 0\n"
	problems, err := helm.Configure(t.Context(), []byte(document))
	if err != nil || len(problems) != 1 || problems[0].Field != "workers" {
		t.Errorf("expected a problem of workers, but found %v and %v", problems, err)
	}
}

// TestByHand: started by hand the program says what it is, and what is wrong with it.
func TestByHand(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		env  string
		code int
		want []string
	}{
		"right": {code: 1, want: []string{"helm test is a plugin for Pergola"}},
		"wrong": {env: wrongOptions + "=1", code: 2, want: []string{
			`plugin.WithResolver: expected the field resourceRef or fromResource, but found "ref"`,
			`the resolver for "fromResource" is nil`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), program)
			command.Env = []string{"HOME=" + t.TempDir(), tc.env}
			output, err := command.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tc.code {
				t.Errorf("expected exit code %d, but found %v", tc.code, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(string(output), want) || strings.Count(string(output), "\n") != 1 {
					t.Errorf("expected one line with %q, but found:\n%s", want, output)
				}
			}
		})
	}
}
