package deployer

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	inline := func(filesystem any) tree {
		return tree{"blueprint": tree{"inline": tree{"filesystem": filesystem}}}
	}
	references := tree{
		"blueprint":           tree{"ref": tree{"resourceName": "a"}},
		"componentDescriptor": tree{"ref": tree{"componentName": "a", "version": "1", "repositoryContext": tree{"type": "x"}}},
	}
	for name, c := range map[string]struct {
		reason string
		config any

		change func(*settings)
		// want are how the problems begin; none for a configuration that is valid.
		want []string
	}{
		"least": {reason: "an image is all that is needed", config: configOf(nil)},
		"everything": {
			reason: "all fields may stand together", change: allowing("a", "b"),
			config: configOf(tree{
				"command": []string{"a"}, "args": []string{"b"}, "importValues": tree{"x": 1},
				"blueprint": tree{"inline": tree{"filesystem": tree{"a": "b"}}}, "componentDescriptor": tree{"inline": tree{}},
				"registryPullSecrets": []any{tree{"name": "a", "namespace": "b"}}, "continuousReconcile": tree{"every": "1h"},
				"resources": tree{"limits": tree{"memory": "1Gi"}}, "nodeSelector": tree{"a": "b"},
				"tolerations": []any{tree{"operator": "Exists"}}, "serviceAccountName": "b",
			}),
		},
		// Rule (container.md#provider-configuration): All errors in a configuration of the container deployer are
		// reported at once.
		"all at once": {
			reason: "nobody wants to find one mistake after the other",
			config: tree{
				"kind": "", "imag": "x", "args": "-v", "blueprint": tree{}, "componentDescriptor": tree{"inline": []any{}},
				"registryPullSecrets": []any{tree{}, tree{"name": "a", "namespace": "b"}, tree{"name": "a"}},
				"continuousReconcile": tree{"cron": "now"}, "serviceAccountName": "a",
			},
			want: []string{
				"args: expected a list, but found a text", "apiVersion: Required value: expected container.", "kind: Required value: expected ProviderConfiguration",
				"image: Required value: say which image to run", "blueprint: Required value: expected ref or inline",
				"componentDescriptor.inline: Invalid value: expected an object", "registryPullSecrets[0].name: Required", "registryPullSecrets[0].namespace: Required",
				"registryPullSecrets[2].namespace: Required", `continuousReconcile.cron: Invalid value: "now"`,
				`serviceAccountName: Invalid value: "a": the operator allows none`, `spec.config: unknown field "imag"`,
			},
		},
		"kind": {
			reason: "the accepted one is named", config: configOf(tree{"kind": "Configuration"}),
			want: []string{`spec.config: spec.config: expected kind ProviderConfiguration of apiVersion container.deployer.landscaper.gardener.cloud/v1alpha1, but found kind "Configuration"`},
		},
		"list": {reason: "a list is no configuration", config: []any{}, want: []string{": expected an object, but found a list"}},

		"twice": {
			reason: "nobody knows which one is meant",
			config: configOf(tree{
				"blueprint":           tree{"ref": tree{"resourceName": "a"}, "inline": tree{"filesystem": tree{}}},
				"componentDescriptor": tree{"ref": tree{"componentName": "a", "version": "1"}, "inline": tree{}},
			}),
			want: []string{"blueprint: Invalid value: has both ref and inline", "componentDescriptor: Invalid value: has both"},
		},
		"references": {reason: "they are looked up", config: configOf(references)},
		"of nobody": {
			reason: "references are names",
			config: configOf(tree{"blueprint": tree{"ref": tree{}}, "componentDescriptor": tree{"ref": tree{}}}),
			want:   []string{"blueprint.ref.resourceName: Required", "componentDescriptor.ref: Required"},
		},
		"blueprint without files": {
			reason: "an inline one has files", config: configOf(tree{"blueprint": tree{"inline": tree{}}}), want: []string{"blueprint.inline.filesystem: Invalid value: expected an object"},
		},
		"no YAML": {reason: "what stands in a file is not quoted", config: configOf(inline("a: {hunter2")), want: []string{"blueprint.inline.filesystem: Invalid value: expected a file system as an object, or as a text"}},

		// Rule (container.md#provider-configuration): `serviceAccountName` must be in the operator's list.
		"account":       {reason: "the allowed ones are named", config: configOf(tree{"serviceAccountName": "c"}), change: allowing("a", "b"), want: []string{`serviceAccountName: Invalid value: "c": the operator allows a, b (serviceAccounts in`}},
		"on the target": {reason: "that is for whom the target belongs to", config: configOf(tree{"serviceAccountName": "c", "runOnTarget": tree{"namespace": "a"}})},
		"namespace":     {reason: "it is required", config: configOf(tree{"runOnTarget": tree{}}), want: []string{`runOnTarget.namespace: Invalid value: "": expected the name of a namespace: `}},

		"types in parts": {
			reason: "each is named, and what follows from it is not",
			config: configOf(tree{"image": 5, "runOnTarget": tree{"namespace": 7}, "registryPullSecrets": []any{tree{"name": true, "namespace": "a"}}, "tolerations": "all"}),
			want: []string{
				"image: expected a text, but found a number", "registryPullSecrets[0].name: expected a text", "runOnTarget.namespace: expected a text", "tolerations: expected a list",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := c.change
			if change == nil {
				change = func(*settings) {}
			}
			found := problems(t, c.config, change)
			if len(found) != len(c.want) {
				t.Fatalf("%s: expected %d problems, but found:\n%s", c.reason, len(c.want), strings.Join(found, "\n"))
			}
			for _, want := range c.want {
				if !slices.ContainsFunc(found, func(text string) bool { return strings.HasPrefix(text, want) }) {
					t.Errorf("%s: expected %q in:\n%s", c.reason, want, strings.Join(found, "\n"))
				}
			}
			if text := strings.Join(found, "\n"); strings.Contains(text, "hunter2") {
				t.Errorf("%s: a problem quotes a file: %s", c.reason, text)
			}
		})
	}
}

// TestRead: what is read is what was written, with what the operator says of the rest.
func TestRead(t *testing.T) {
	t.Parallel()
	memory := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}}
	}
	operator := func(s *settings) { s.DefaultImage, s.Resources, s.Strict = "default:1", memory("1Gi"), new(false) }

	own := mustRead(t, configOf(tree{"resources": tree{"limits": tree{"memory": "2Gi"}}, "importValues": tree{"big": int64(9007199254740993)}}), operator)
	if own.Image != "image:1" || string(own.ImportValues) != `{"big":9007199254740993}` || len(own.unknown) > 0 || own.files != nil {
		t.Errorf("expected what was written, but found %+v of %+v", own, own.ProviderConfiguration)
	}
	if diff := cmp.Diff(memory("2Gi"), own.resources); diff != "" {
		t.Errorf("own resources: -want +got:\n%s", diff)
	}
	none := mustRead(t, configOf(tree{"image": nil, "nobody": 1}), operator)
	if none.Image != "default:1" {
		t.Errorf("expected the image of the operator, but found %q", none.Image)
	}
	if diff := cmp.Diff(memory("1Gi"), none.resources); diff != "" {
		t.Errorf("resources of the operator: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{`unknown field "nobody"`}, none.unknown); diff != "" {
		t.Errorf("what was passed over: -want +got:\n%s", diff)
	}
	empty := mustRead(t, configOf(tree{"resources": tree{}}), operator)
	if diff := cmp.Diff(corev1.ResourceRequirements{}, empty.resources); diff != "" {
		t.Errorf("who wants no limits writes them down: -want +got:\n%s", diff)
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason         string
		config         tree
		wantReason     string
		wantTexts      []string
		withoutAnyItem bool
	}{
		"invalid": {
			reason: "all is in one error", config: configOf(tree{"image": "", "serviceAccountName": "a"}), wantReason: "ValidateProviderConfiguration",
			wantTexts: []string{"spec.config: image: Required", "; serviceAccountName: Invalid"},
		},
		"misread": {
			reason: "so are the mistakes of the other kind", config: configOf(tree{"image": 5, "imge": ""}), wantReason: sdk.ReasonConfigInvalid,
			wantTexts: []string{"image: expected a text", `unknown field "imge"`},
		},
		"kind": {reason: "the document may be for somebody else", config: tree{"kind": "X"}, wantReason: sdk.ReasonConfigInvalid, wantTexts: []string{`found kind "X"`}},
		"none": {reason: "an item may have none", withoutAnyItem: true, wantReason: sdk.ReasonConfigMissing, wantTexts: []string{"missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, c.config)
			if c.withoutAnyItem {
				s := defaultSettings()
				_, err = readConfig(&sdk.Request{DeployItem: &landscaper.DeployItem{}}, &s)
			}
			known, ok := errors.AsType[*sdk.Error](err)
			if !ok || known.Reason != c.wantReason || !cmp.Equal(known.Codes, []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}) {
				t.Fatalf("%s: expected a problem of the configuration with reason %s, but found %#v", c.reason, c.wantReason, err)
			}
			for _, text := range c.wantTexts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: expected %q in %q", c.reason, text, err)
				}
			}
		})
	}
}

type tree = map[string]any

// configOf returns a provider configuration that is valid, with other fields; a field without a value is removed.
func configOf(fields tree) tree {
	all := tree{
		"apiVersion": "container.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration", "image": "image:1",
	}
	maps.Copy(all, fields)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

func marshal(t testing.TB, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// read reads a provider configuration with the settings of an operator who says nothing.
func read(t *testing.T, value any, changes ...func(*settings)) (*config, error) {
	t.Helper()
	s := defaultSettings()
	for _, change := range changes {
		change(&s)
	}
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: marshal(t, value)}
	return readConfig(&sdk.Request{DeployItem: item}, &s)
}

func mustRead(t *testing.T, value any, changes ...func(*settings)) *config {
	t.Helper()
	c, err := read(t, value, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems are those of a provider configuration, as texts.
func problems(t *testing.T, value any, changes ...func(*settings)) []string {
	t.Helper()
	s := defaultSettings()
	for _, change := range changes {
		change(&s)
	}
	found, err := validateConfig(marshal(t, value), &s)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range found {
		texts = append(texts, p.Field+": "+p.Message)
	}
	return texts
}

func allowing(accounts ...string) func(*settings) {
	return func(s *settings) { s.ServiceAccounts = accounts }
}

// TestQuantities: nobody who may write a deploy item keeps the deployer busy with an amount that the library takes
// seconds to minutes for.
func TestQuantities(t *testing.T) {
	t.Parallel()
	costly := tree{"limits": tree{"memory": json.RawMessage("1e-9999999")}}
	for name, fields := range map[string]tree{
		"plain": {"resources": costly}, "hidden by another case": {"resources": costly, "RESOURCES": tree{"limits": tree{}}},
	} {
		if found := problems(t, configOf(fields)); len(found) != 1 || !strings.Contains(found[0], "resources.limits.memory: expected an amount") {
			t.Errorf("%s: found %q", name, found)
		}
	}
}
