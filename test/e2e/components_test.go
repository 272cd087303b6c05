package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/components"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestChartsOfComponents deploys the example of a component, and then a component to which only the ConfigMap of the
// Context leads, which is created while the job waits for it.
// Rule (helm.md#charts-of-components): A job without the ConfigMap with places of components goes on when it is
// created.
func TestChartsOfComponents(t *testing.T) {
	const user, password = "somebody", "pass-word-1"
	registry := chartserver.StartRegistry(t, chartserver.Options{
		PlainHTTP: true, Auth: chartserver.Basic, User: user, Password: password,
	})
	shopKey := components.Key("example.com/shop", "1.2.3", "chart")
	for prefix, name := range map[string]string{"components": "example.com/shop", "parts": "example.com/parts/sign"} {
		components.Place{Registry: registry, Prefix: prefix}.Push(t, components.Version{
			Name: name, Version: "1.2.3", Resources: []components.Resource{{Name: "chart", Content: charts.Pack("plain")}},
		})
	}
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "helm"), Config: writeConfig(t, anyConfig+fmt.Sprintf(`
plugins:
  helm:
    config:
      apiVersion: helm.pergola.dev/v1alpha1
      kind: HelmConfiguration
      registries: [{host: %q, plainHTTP: true}]
`, registry.Host()))})
	namespace := newNamespace(t)
	createTarget(t, namespace, "cluster")
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "registry", Namespace: namespace}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: chartserver.DockerConfig(registry.Host(), user, password)},
	})

	places, item := exampleOfComponent(t, namespace, registry)
	places.OCMConfig = &v1alpha1.LocalObjectReference{Name: "places"}
	create(t, places)
	_, part := exampleOfComponent(t, namespace, registry)
	part.Name = "part"
	part.Spec.Config.Raw = []byte(strings.NewReplacer(
		shopKey, components.Key("example.com/parts/sign", "1.2.3", "chart"), `"name":"component"`, `"name":"part"`,
	).Replace(string(part.Spec.Config.Raw)))

	mustHaveChartOf(t, carryOut(t, item, succeeded), "example.com/shop")
	part = start(t, part)
	waitLastError(t, part, "places")
	create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "places", Namespace: namespace},
		Data: map[string]string{".ocmconfig": fmt.Sprintf(`
type: ocm.config.ocm.software
resolvers:
- repository: {type: OCIRegistry, baseUrl: %q, subPath: parts}
  prefix: example.com/parts
`, registry.Host())},
	})
	mustHaveChartOf(t, waitPhase(t, part, succeeded), "example.com/parts/sign")
	for _, item := range []*v1alpha1.DeployItem{item, part} {
		deleteItem(t, item)
		expectConfigMap(t, namespace, item.Name+"-plain-greeting", false)
	}
}

// exampleOfComponent reads the Context and the DeployItem of test/examples/component.yaml, with a registry in the place
// of that of the example.
func exampleOfComponent(
	t *testing.T, namespace string, registry *chartserver.Registry,
) (*v1alpha1.Context, *v1alpha1.DeployItem) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(testenv.Root(), "test", "examples", "component.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("registry.example.org", registry.Host(), "pergola-demo", namespace)
	first, second, _ := strings.Cut(here.Replace(string(content)), "\n---\n")
	places, item := &v1alpha1.Context{}, &v1alpha1.DeployItem{}
	err = errors.Join(yaml.UnmarshalStrict([]byte(first), places), yaml.UnmarshalStrict([]byte(second), item))
	if err != nil {
		t.Fatal(err)
	}
	places.Namespace, item.Namespace = namespace, namespace
	item.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(item.Spec.Type)}
	return places, item
}

// mustHaveChartOf checks that an item has deployed the chart of a component, and says so.
func mustHaveChartOf(t *testing.T, item *v1alpha1.DeployItem, component string) {
	t.Helper()
	var status helmv1alpha1.ProviderStatus
	if err := json.Unmarshal(item.Status.ProviderStatus.Raw, &status); err != nil {
		t.Fatal(err)
	}
	if status.Chart == nil || status.Chart.Resource == nil || status.Chart.Resource.Component != component {
		t.Errorf("expected the chart of %s in the provider status, but found %s", component, item.Status.ProviderStatus.Raw)
	}
	greeting := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: item.Namespace, Name: item.Name + "-plain-greeting"}
	if err := admin.Get(t.Context(), key, greeting); err != nil || greeting.Data["greeting"] != "good afternoon" {
		t.Errorf("expected the greeting of the example, but found %v, error %v", greeting.Data, err)
	}
}
