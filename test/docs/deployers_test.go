package docs

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk"
	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// The pages about deployers, and the schemas that their plugins publish.
const (
	manifestPage                 = "docs/manifest.md"
	configurationSchema          = "plugins/manifest/internal/config/providerconfiguration.schema.json"
	settingsSchema               = "plugins/manifest/internal/settings/schema.json"
	helmPage                     = "docs/helm.md"
	helmConfigurationSchema      = "plugins/helm/internal/config/providerconfiguration.schema.json"
	helmSettingsSchema           = "plugins/helm/internal/settings/schema.json"
	containerPage                = "docs/container.md"
	containerConfigurationSchema = "plugins/container/internal/config/providerconfiguration.schema.json"
	containerSettingsSchema      = "plugins/container/internal/config/settings.schema.json"
)

// deployerPage is a page about a deployer. Each document that it shows is a deploy item, a part of a provider
// configuration, or the document of the plugin, alone or in that of the host.
type deployerPage struct {
	path, configuration, settings string
	itemType                      landscaper.DeployItemType
	// whole is a provider configuration that shown parts are put into.
	whole map[string]any
	// plugin reads all documents, too, unless it is nil.
	plugin *sdktest.Plugin
}

// check holds what the page shows against the schemas and has the plugin read it. want are the kinds of documents, and
// the fields of parts.
func (p *deployerPage) check(t *testing.T, want ...string) {
	t.Helper()
	shown := map[string]bool{}
	for i, document := range blocks(t, p.path, "yaml") {
		content := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		kind, _ := content["kind"].(string)
		switch kind {
		case landscaper.DeployItemGVK.Kind:
			config, _, _ := unstructured.NestedMap(content, "spec", "config")
			p.checkConfiguration(t, config)
		case "HostConfiguration":
			settings, _, _ := unstructured.NestedMap(content, "plugins", "container", "config")
			p.checkSettings(t, settings)
		case "":
			kind = strings.Join(slices.Sorted(maps.Keys(content)), ", ")
			whole := maps.Clone(p.whole)
			maps.Copy(whole, content)
			p.checkConfiguration(t, whole)
		default:
			p.checkSettings(t, content)
		}
		shown[kind] = true
		if t.Failed() {
			t.Fatalf("block %d, %s:\n%s", i, kind, document)
		}
	}
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, want) {
		t.Errorf("expected the page to show %v, but found %v", want, got)
	}
}

func (p *deployerPage) checkConfiguration(t *testing.T, content map[string]any) {
	t.Helper()
	if err := fitsSchema(t, p.configuration, content); err != nil {
		t.Error(err)
	}
	if p.plugin != nil {
		p.validate(t, content)
	}
}

// validate has the plugin read a provider configuration.
func (p *deployerPage) validate(t *testing.T, content map[string]any) {
	t.Helper()
	call := sdktest.Call{DeployItem: sdktest.DeployItem(p.itemType, content)}
	if problems, err := p.plugin.Validate(patient(t), call); err != nil || len(problems) > 0 {
		t.Errorf("the plugin finds %v, error %v", problems, err)
	}
}

func (p *deployerPage) checkSettings(t *testing.T, content map[string]any) {
	t.Helper()
	if err := fitsSchema(t, p.settings, content); err != nil {
		t.Error(err)
	}
	if p.plugin == nil {
		return
	}
	document, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := p.plugin.Configure(patient(t), document); err != nil || len(problems) > 0 {
		t.Errorf("the plugin finds %v, error %v", problems, err)
	}
}

// fitsSchema holds JSON against a schema of the repository.
func fitsSchema(t *testing.T, path string, content any) error {
	t.Helper()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewBufferString(page(t, path)))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", schema); err != nil {
		return err
	}
	return compiler.MustCompile("schema.json").Validate(content)
}

func TestManifestPage(t *testing.T) {
	t.Parallel()
	(&deployerPage{
		path: manifestPage, configuration: configurationSchema, settings: settingsSchema,
		whole: map[string]any{
			"apiVersion": v1alpha2.GroupVersion.String(), "kind": v1alpha2.ProviderConfigurationKind,
		},
	}).check(t, "DeployItem", "ManifestConfiguration", "deletionGroups", "exports", "ignoreDifferences", "readinessChecks")
}

// TestContainerPage also has the plugin of the page read a reference that its resolver is for.
func TestContainerPage(t *testing.T) {
	t.Parallel()
	p := &deployerPage{
		path: containerPage, configuration: containerConfigurationSchema, settings: containerSettingsSchema,
		itemType: containerv1alpha1.Type,
		plugin:   sdktest.Start(t, build(t, containerPage, "container"), "HOME="+t.TempDir()),
	}
	p.check(t, "DeployItem", "HostConfiguration")
	p.validate(t, map[string]any{
		"apiVersion": containerv1alpha1.GroupVersion.String(), "kind": containerv1alpha1.ProviderConfigurationKind,
		"image":     "registry.example.org/shop:1",
		"blueprint": map[string]any{"ref": map[string]any{"resourceName": "roses"}},
	})
}

// TestHelmPage also has the plugin of the page ask its resolver for a chart that this does not know.
func TestHelmPage(t *testing.T) {
	t.Parallel()
	chart := func(fields map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": helmv1alpha1.ProviderConfigurationKind,
			"name": "shop", "namespace": "shop", "chart": fields,
		}
	}
	p := &deployerPage{
		path: helmPage, configuration: helmConfigurationSchema, settings: helmSettingsSchema,
		itemType: helmv1alpha1.Type,
		whole:    chart(map[string]any{"ref": "registry.example.org/shop:1"}),
		plugin:   sdktest.Start(t, build(t, helmPage, "helm"), "HOME="+t.TempDir()),
	}
	p.check(t,
		"DeployItem", "HelmConfiguration", "chart", "exports", "helmDeployment, updateStrategy", "helmDeploymentConfig")
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	kubeconfig := fmt.Sprintf(nobody, server.URL)
	result := p.plugin.Reconcile(patient(t), sdktest.Call{
		DeployItem: sdktest.DeployItem(helmv1alpha1.Type, chart(map[string]any{"resourceRef": "cm9zZXM="})),
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
