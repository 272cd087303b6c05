package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// blueprint is as much of a Blueprint as the tests need.
type blueprint struct {
	metav1.TypeMeta `json:",inline"`
	Imports         []struct {
		Name       string `json:"name"`
		Type       string `json:"type"`
		TargetType string `json:"targetType"`
		Required   *bool  `json:"required"`
		Schema     object `json:"schema"`
	} `json:"imports"`
	DeployExecutions []struct {
		Name     string `json:"name"`
		Type     string `json:"type"`
		Template string `json:"template"`
	} `json:"deployExecutions"`
}

// execution is what comes of a deploy execution.
type execution struct {
	DeployItems []struct {
		Name   string                   `json:"name"`
		Type   v1alpha1.DeployItemType  `json:"type"`
		Target v1alpha1.ObjectReference `json:"target"`
		Config runtime.RawExtension     `json:"config"`
	} `json:"deployItems"`
}

func readBlueprint(t *testing.T) *blueprint {
	t.Helper()
	b := &blueprint{}
	if err := yaml.UnmarshalStrict(readChartFile(t, "landscaper/blueprint.yaml"), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func readChartFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "charts", path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// render makes a text of the imports as a Landscaper does.
func (b *blueprint) render(t *testing.T, imports object) (string, error) {
	t.Helper()
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(value any) (string, error) {
		text, err := yaml.Marshal(value)
		return string(text), err
	}
	execute, err := template.New("execution").Funcs(functions).Option("missingkey=zero").Parse(b.DeployExecutions[0].Template)
	if err != nil {
		t.Fatal(err)
	}
	var rendered strings.Builder
	err = execute.Execute(&rendered, object{"imports": imports})
	return rendered.String(), err
}

// execute makes deploy items of the imports, and decodes them strictly.
func (b *blueprint) execute(t *testing.T, imports object) *execution {
	t.Helper()
	rendered, err := b.render(t, imports)
	if err != nil {
		t.Fatal(err)
	}
	out := &execution{}
	if err := yaml.UnmarshalStrict([]byte(rendered), out); err != nil {
		t.Fatalf("%v\n%s", err, rendered)
	}
	if len(out.DeployItems) != 1 || out.DeployItems[0].Type != helmv1alpha1.Type {
		t.Fatalf("expected one item for the helm deployer, but found %+v", out)
	}
	return out
}

// imports are those that every test has, and more.
func imports(more object) object {
	all := object{
		"cluster":          object{"metadata": object{"name": targetName, "namespace": "home"}},
		"releaseName":      "pergola-two",
		"releaseNamespace": "pergola-two",
		"identity":         "two",
		"targetSelectors":  []any{object{"annotations": []any{object{"key": "landscaper.gardener.cloud/environment", "operator": "=", "values": []any{"two"}}}}},
		"chart":            "registry.example.org/charts/pergola:1.0.0",
	}
	maps.Copy(all, more)
	return all
}

// The imports are those that deployers are installed with, and their values reach the chart.
func TestBlueprint(t *testing.T) {
	b := readBlueprint(t)
	var names []string
	for _, i := range b.Imports {
		names = append(names, i.Name)
	}
	want := []string{"cluster", "landscaperCluster", "releaseName", "releaseNamespace", "identity", "targetSelectors", "chart", "values"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
	selectors, secretRef := imports(nil)["targetSelectors"], object{"secretRef": object{"name": "landscaper-cluster"}}
	for name, test := range map[string]struct {
		reason  string
		imports object
		values  object
	}{
		"least": {reason: "what is required is enough", values: object{"standalone": false, "identity": "two", "targetSelectors": selectors}},
		"values": {
			reason:  "the other imports have precedence",
			imports: object{"values": object{"standalone": true, "replicas": 2, "identity": "one"}},
			values:  object{"standalone": false, "identity": "two", "targetSelectors": selectors, "replicas": 2.0},
		},
		"two clusters": {
			reason:  "the kubeconfig of a Target is a text",
			imports: object{"landscaperCluster": object{"spec": object{"config": object{"kubeconfig": "apiVersion: v1\n"}}}},
			values: object{
				"standalone": false, "identity": "two", "targetSelectors": selectors, "landscaperCluster": object{"kubeconfig": "apiVersion: v1\n"},
			},
		},
		"two clusters, kubeconfig as object": {
			reason:  "or an object",
			imports: object{"landscaperCluster": object{"spec": object{"config": object{"kubeconfig": object{"apiVersion": "v1"}}}}},
			values: object{
				"standalone": false, "identity": "two", "targetSelectors": selectors, "landscaperCluster": object{"kubeconfig": "apiVersion: v1\n"},
			},
		},
		"two clusters, Secret": {
			reason: "the kubeconfig stays out of the DeployItem",
			imports: object{
				"landscaperCluster": targetWith(object{"config": object{"kubeconfig": "apiVersion: v1\n"}}),
				"values":            object{"landscaperCluster": secretRef},
			},
			values: object{"standalone": false, "identity": "two", "targetSelectors": selectors, "landscaperCluster": secretRef},
		},
		"two clusters, Secret of a Target": {
			reason:  "what the Target has is not needed",
			imports: object{"landscaperCluster": targetWith(object{"secretRef": object{"name": "s"}}), "values": object{"landscaperCluster": secretRef}},
			values:  object{"standalone": false, "identity": "two", "targetSelectors": selectors, "landscaperCluster": secretRef},
		},
	} {
		t.Run(name, func(t *testing.T) {
			item := b.execute(t, imports(test.imports)).DeployItems[0]
			config := &helmv1alpha1.ProviderConfiguration{}
			if err := yaml.UnmarshalStrict(item.Config.Raw, config); err != nil {
				t.Fatal(err)
			}
			values := object{}
			if err := json.Unmarshal(config.Values, &values); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.values, values); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
			if item.Target != (v1alpha1.ObjectReference{Name: targetName, Namespace: "home"}) || config.Name != "pergola-two" || config.Namespace != "pergola-two" {
				t.Errorf("expected the release and the target of the imports, but found %+v", item)
			}
		})
	}
}

// A Target whose kubeconfig is nowhere to be read is refused with a word on what to do.
func TestBlueprintNeedsAKubeconfig(t *testing.T) {
	b := readBlueprint(t)
	for name, test := range map[string]struct {
		reason string
		spec   object
	}{
		"secret":      {reason: "the Blueprint cannot read it", spec: object{"secretRef": object{"name": "s"}}},
		"self":        {reason: "the cluster of the Target has no name in another one", spec: object{"config": object{"selfConfig": object{}}}},
		"nothing":     {reason: "there is none", spec: nil},
		"empty":       {reason: "there is none", spec: object{"config": object{"kubeconfig": ""}}},
		"config null": {reason: "there is none", spec: object{"config": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.render(t, imports(object{"landscaperCluster": targetWith(test.spec)}))
			want := "import landscaperCluster: expected a Target with spec.config.kubeconfig, but found none; put the kubeconfig into a Secret"
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
			}
		})
	}
}

func targetWith(spec object) object {
	return object{"metadata": object{"name": "elsewhere", "namespace": "home"}, "spec": spec}
}

// The example of a registration is one that the API server takes, for types that plugins serve and with imports that the blueprint has.
func TestDeployerRegistration(t *testing.T) {
	registration := &v1alpha1.DeployerRegistration{}
	if err := yaml.UnmarshalStrict(readChartFile(t, "landscaper/deployerregistration.yaml"), registration); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), registration.DeepCopy(), client.DryRunAll); err != nil {
		t.Error(err)
	}
	var template struct {
		ImportDataMappings object `json:"importDataMappings"`
	}
	if err := json.Unmarshal(registration.Spec.InstallationTemplate.Raw, &template); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, i := range readBlueprint(t).Imports {
		known[i.Name] = true
	}
	for name := range template.ImportDataMappings {
		if !known[name] {
			t.Errorf("the blueprint has no import %s", name)
		}
	}
}

// Deployers install each other: the helm deployer of one Pergola installs another Pergola, as a Landscaper has it done.
func TestLandscaperInstallsPergola(t *testing.T) {
	kubeconfig, err := testenv.InlineKubeconfig(controlPlane.Config)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, kubeconfig)
	registry := chartserver.StartRegistry(t, chartserver.Options{PlainHTTP: true})
	if _, err := registry.Push("charts/pergola", "1.0.0", packChart(t)); err != nil {
		t.Fatal(err)
	}
	w.write(w.options.Config, fmt.Appendf(nil, hostConfigWith, registry.Host()), 0o600)
	w.startHost()
	const name = "second"
	item := readBlueprint(t).execute(t, imports(object{
		"cluster":     object{"metadata": object{"name": targetName, "namespace": w.namespace}},
		"chart":       registry.Ref("charts/pergola", "1.0.0"),
		"releaseName": "second", "releaseNamespace": w.home(name), "identity": "second-pergola",
		"values": object{"plugins": object{"helm": object{"enabled": false}}},
	})).DeployItems[0]
	config := deployment{}
	if err := json.Unmarshal(item.Config.Raw, &config); err != nil {
		t.Fatal(err)
	}
	jobID := w.put(name, config)
	w.playControllers(w.home(name), name+"-pergola")
	w.finish(name, jobID, succeeded)

	w.mustBeConfigured(w.home(name), "second-pergola")
	w.remove(name)
	w.awaitGone(name)
	kept := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name + "-pergola-pods"}}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(kept), kept); err != nil || kept.DeletionTimestamp != nil {
		t.Errorf("expected the namespace with the state of containers to stay, but found %v", err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.home(name), Name: name + "-pergola"}}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); !apierrors.IsNotFound(err) {
		t.Errorf("expected the Deployment to be gone, but found %v", err)
	}
}

// hostConfigWith is the configuration of a host that gets charts from a registry without TLS.
const hostConfigWith = `
apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
plugins:
  helm:
    config: {apiVersion: helm.pergola.dev/v1alpha1, kind: HelmConfiguration, registries: [{host: %q, plainHTTP: true}]}
`

// packChart packs the chart of Pergola.
func packChart(t *testing.T) []byte {
	t.Helper()
	chart, err := loader.LoadDir(filepath.Join(testenv.Root(), "charts", "pergola"))
	if err != nil {
		t.Fatal(err)
	}
	chart.Metadata.Version, chart.Metadata.AppVersion = "1.0.0", "1.0.0"
	file, err := chartutil.Save(chart, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// playControllers does what controllers and a node do when the Pods of a release run, which has to be there some time.
func (w *world) playControllers(namespace, name string) {
	w.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	deployment, budget := &appsv1.Deployment{ObjectMeta: meta}, &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	w.eventually("the release to be there", func(ctx context.Context) (string, error) {
		err := errors.Join(
			admin.Get(ctx, client.ObjectKeyFromObject(deployment), deployment), admin.Get(ctx, client.ObjectKeyFromObject(budget), budget))
		if err != nil {
			return err.Error(), nil //nolint:nilerr // not yet
		}
		return "", nil
	})
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, CurrentHealthy: 1, DesiredHealthy: 0, DisruptionsAllowed: 1, ExpectedPods: 1,
	}
	for _, o := range []client.Object{deployment, budget} {
		if err := admin.Status().Update(w.Context(), o); err != nil {
			w.Fatal(err)
		}
	}
}

// mustBeConfigured checks that the host of a release goes by an identity, and carries out the items of the Targets that the imports select.
func (w *world) mustBeConfigured(namespace, identity string) {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "second-pergola-configuration"}}
	if err := admin.Get(w.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		w.Fatal(err)
	}
	configured := object{}
	if err := yaml.UnmarshalStrict(secret.Data["host.yaml"], &configured); err != nil {
		w.Fatal(err)
	}
	want := object{"identity": identity, "targetSelectors": imports(nil)["targetSelectors"], "pluginFiles": []any{"container", "manifest"}}
	for field := range want {
		if diff := cmp.Diff(want[field], configured[field]); diff != "" {
			w.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
}
