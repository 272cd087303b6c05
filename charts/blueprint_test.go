package charts

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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

func readBlueprint(t *testing.T) *blueprint {
	t.Helper()
	b := &blueprint{}
	content := read(t, filepath.Join("landscaper", "blueprint.yaml"))
	if err := yaml.UnmarshalStrict([]byte(content), b); err != nil {
		t.Fatal(err)
	}
	return b
}

// values are those of the chart that a Landscaper makes of the imports that every test has, and more.
func (b *blueprint) values(t *testing.T, more object) (values object, err error) {
	t.Helper()
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(value any) (string, error) {
		text, err := yaml.Marshal(value)
		return string(text), err
	}
	empty := template.New("execution").Funcs(functions).Option("missingkey=zero")
	execute, err := empty.Parse(b.DeployExecutions[0].Template)
	if err != nil {
		t.Fatal(err)
	}
	imports := object{
		"cluster":     object{"metadata": object{"name": "target", "namespace": "home"}},
		"releaseName": "pergola-two", "releaseNamespace": "two-system", "identity": "two", "targetSelectors": selectors,
		"chart": "registry.example.org/charts/pergola:1.0.0",
	}
	maps.Copy(imports, more)
	var rendered strings.Builder
	if err := execute.Execute(&rendered, object{"imports": imports}); err != nil {
		return nil, err
	}
	var out struct {
		DeployItems []struct {
			Name   string                   `json:"name"`
			Type   v1alpha1.DeployItemType  `json:"type"`
			Target v1alpha1.ObjectReference `json:"target"`
			Config runtime.RawExtension     `json:"config"`
		} `json:"deployItems"`
	}
	config := &helmv1alpha1.ProviderConfiguration{}
	if err := yaml.UnmarshalStrict([]byte(rendered.String()), &out); err != nil || len(out.DeployItems) != 1 {
		t.Fatalf("expected one item, but found %v in\n%s", err, &rendered)
	}
	item := out.DeployItems[0]
	if err := yaml.UnmarshalStrict(item.Config.Raw, config); err != nil {
		t.Fatal(err)
	}
	if item.Type != helmv1alpha1.Type || item.Target != (v1alpha1.ObjectReference{Name: "target", Namespace: "home"}) ||
		config.Name != "pergola-two" || config.Namespace != "two-system" {
		t.Errorf("expected the release and the target of the imports, but found %+v", item)
	}
	return values, json.Unmarshal(config.Values, &values)
}

var selectors = []any{object{"annotations": []any{
	object{"key": "landscaper.gardener.cloud/environment", "operator": "=", "values": []any{"two"}},
}}}

// A Landscaper installs the chart with what it imports, by which the host goes.
// Rule (operators-guide.md#install-by-landscaper): The blueprint has the imports for deployers, and they become values
// of the chart.
func TestBlueprint(t *testing.T) {
	b := readBlueprint(t)
	for name, test := range map[string]struct {
		reason  string
		imports object
		want    object // besides what the other imports say
	}{
		"least": {reason: "what is required is enough"},
		"values": {
			reason:  "the other imports have precedence",
			imports: object{"values": object{"standalone": true, "identity": "one", "replicaCount": 2}},
			want:    object{"replicaCount": 2.0},
		},
		"two clusters": {
			reason:  "the kubeconfig of a Target is a text",
			imports: object{"landscaperCluster": targetWith(`{"config": {"kubeconfig": "apiVersion: v1\n"}}`)},
			want:    object{"landscaperCluster": object{"kubeconfig": "apiVersion: v1\n"}},
		},
		"two clusters, kubeconfig as object": {
			reason:  "or an object",
			imports: object{"landscaperCluster": targetWith(`{"config": {"kubeconfig": {"apiVersion": "v1"}}}`)},
			want:    object{"landscaperCluster": object{"kubeconfig": "apiVersion: v1\n"}},
		},
		"two clusters, Secret": {
			reason: "the kubeconfig stays out of the DeployItem",
			imports: object{
				"landscaperCluster": targetWith(`{"secretRef": {"name": "s"}}`),
				"values":            object{"landscaperCluster": object{"secretRef": object{"name": "s"}}},
			},
			want: object{"landscaperCluster": object{"secretRef": object{"name": "s"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := b.values(t, test.imports)
			if err != nil {
				t.Fatal(err)
			}
			want := object{"standalone": false, "identity": "two", "targetSelectors": selectors}
			maps.Copy(want, test.want)
			if diff := cmp.Diff(want, values); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
			files, err := renderWith(t, values, newest)
			if err != nil {
				t.Fatal(err)
			}
			configured := configurationOf(t, decode(t, files), "pergola")
			got := []any{configured["identity"], configured["targetSelectors"]}
			if diff := cmp.Diff([]any{"two", selectors}, got); diff != "" {
				t.Errorf("configuration of the host (-want +got):\n%s", diff)
			}
		})
	}
}

// A Target whose kubeconfig is nowhere to be read is refused with a word on what to do.
func TestBlueprintNeedsAKubeconfig(t *testing.T) {
	for reason, spec := range map[string]string{
		"the Blueprint cannot read it":                             `{"secretRef": {"name": "s"}}`,
		"the cluster of the Target has no name in another cluster": `{"config": {"selfConfig": {}}}`,
		"there is none": `null`,
	} {
		_, err := readBlueprint(t).values(t, object{"landscaperCluster": targetWith(spec)})
		const want = "import landscaperCluster: expected a Target with spec.config.kubeconfig, but found none; " +
			"put the kubeconfig into a Secret"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: expected %q, but found: %v", reason, want, err)
		}
	}
}

func targetWith(spec string) (target object) {
	document := fmt.Sprintf(`{"metadata": {"name": "elsewhere", "namespace": "home"}, "spec": %s}`, spec)
	if err := json.Unmarshal([]byte(document), &target); err != nil {
		panic(err) //nolint:forbidigo // tests have valid documents
	}
	return target
}

// The example of a registration is one that the API server takes, with imports that the blueprint has.
func TestDeployerRegistration(t *testing.T) {
	registration := &v1alpha1.DeployerRegistration{}
	content := read(t, filepath.Join("landscaper", "deployerregistration.yaml"))
	if err := yaml.UnmarshalStrict([]byte(content), registration); err != nil {
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
