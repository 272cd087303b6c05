package docs

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

const (
	helmPage = "docs/helm.md"
	// The schemas that the helm plugin publishes.
	helmConfigurationSchema = "plugins/helm/internal/config/providerconfiguration.schema.json"
	helmSettingsSchema      = "plugins/helm/internal/settings/schema.json"
)

// TestHelmPage: what the page about the helm deployer shows is a deploy item, a part of a provider configuration, or
// the document of the plugin, and all of it is as the plugin reads it.
func TestHelmPage(t *testing.T) {
	t.Parallel()
	plugin := sdktest.Start(t, build(t, helmPage, "helm"), "HOME="+t.TempDir())
	shown := map[string]int{}
	for i, document := range blocks(t, helmPage, "yaml") {
		content := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil {
			t.Errorf("block %d: %v", i, err)
			continue
		}
		kind := checkHelmBlock(t, plugin, content)
		shown[kind]++
		if t.Failed() {
			t.Fatalf("block %d, %s:\n%s", i, kind, document)
		}
	}
	checkResolver(t, plugin)
	want := []string{
		"DeployItem", "HelmConfiguration", "chart", "exports", "helmDeployment, updateStrategy", "helmDeploymentConfig",
	}
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, want) {
		t.Errorf("expected the page to show %v, but found %v", want, got)
	}
}

// checkHelmBlock holds a block against the published schema and has the plugin read it, and says what it is.
func checkHelmBlock(t *testing.T, plugin *sdktest.Plugin, content map[string]any) (kind string) {
	t.Helper()
	switch kind, _ := content["kind"].(string); kind {
	case landscaper.DeployItemGVK.Kind:
		spec, _ := content["spec"].(map[string]any)
		config, _ := spec["config"].(map[string]any)
		checkHelmConfiguration(t, plugin, config)
		return kind
	case "":
		kind := strings.Join(slices.Sorted(maps.Keys(content)), ", ")
		whole := map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ProviderConfigurationKind, "name": "shop",
			"namespace": "shop",
			"chart":     map[string]any{"ref": "registry.example.org/shop:1"},
		}
		maps.Copy(whole, content)
		checkHelmConfiguration(t, plugin, whole)
		return kind
	default:
		if err := fitsSchema(t, helmSettingsSchema, content); err != nil {
			t.Error(err)
		}
		document, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := plugin.Configure(patient(t), document); err != nil || len(problems) > 0 {
			t.Errorf("the plugin finds %v, error %v", problems, err)
		}
		return kind
	}
}

func checkHelmConfiguration(t *testing.T, plugin *sdktest.Plugin, content map[string]any) {
	t.Helper()
	if err := fitsSchema(t, helmConfigurationSchema, content); err != nil {
		t.Error(err)
	}
	document := sdktest.DeployItem(v1alpha1.Type, content).Spec.Config.Raw
	if problems, err := plugin.Validate(patient(t), v1alpha1.Type, document); err != nil || len(problems) > 0 {
		t.Errorf("the plugin finds %v, error %v", problems, err)
	}
}

// checkResolver checks that the program of the page is asked for charts, and says which it does not know.
func checkResolver(t *testing.T, plugin *sdktest.Plugin) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	kubeconfig := fmt.Sprintf(nobody, server.URL)
	result := plugin.Reconcile(patient(t), sdktest.Call{
		DeployItem: sdktest.DeployItem(v1alpha1.Type, map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ProviderConfigurationKind, "name": "shop",
			"namespace": "shop",
			"chart":     map[string]any{"resourceRef": "cm9zZXM="},
		}),
		Target: &sdk.Target{
			Name: "nobody", Type: landscaper.KubernetesClusterTargetType,
			Content: []byte(`{"kubeconfig": ` + strconv.Quote(kubeconfig) + `}`),
		},
	})
	if result.Failed == nil || !strings.Contains(result.Failed.Error(), `there is no chart "cm9zZXM="`) {
		t.Errorf("expected the error of the resolver, but found: %s", result)
	}
}

// nobody is the kubeconfig of a cluster whose server knows nothing.
const nobody = `
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
clusters: [{name: nobody, cluster: {server: %q}}]
users: [{name: nobody, user: {token: none}}]
`
