package config

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
	"github.com/pergola-deploy/pergola/test/configtest"
)

// Rule (container.md#provider-configuration): All errors in a configuration of the container deployer are reported at
// once.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	configtest.Suite{
		Files: "testdata/*.yaml", Schema: configtest.NewSchema(Schema),
		Objects: []string{"inline"}, Anything: []string{"importValues", "filesystem", "repositoryContext"},
		Read: func(t *testing.T, document []byte, _ bool) []sdk.Problem {
			t.Helper()
			_, err := read(t, json.RawMessage(document))
			problems := sdk.ProblemsOf(err)
			configtest.MustAgree(t, problems, err)
			return problems
		},
	}.Run(t)
}

// Rule (container.md#provider-configuration): `serviceAccountName` must be in the operator's list.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	refused := []string{`serviceAccountName: Invalid value: "c": the operator allows a, b (serviceAccounts in`}
	for name, c := range map[string]struct {
		config tree
		want   []string
	}{
		"allowed":     {tree{"serviceAccountName": "b"}, nil},
		"not allowed": {tree{"serviceAccountName": "c"}, refused},
		// Its owner decides.
		"on the target": {tree{"serviceAccountName": "c", "runOnTarget": tree{"namespace": "a"}}, nil},
	} {
		found := problems(t, configOf(c.config), func(s *Settings) { s.ServiceAccounts = []string{"a", "b"} })
		if !slices.EqualFunc(found, c.want, strings.HasPrefix) {
			t.Errorf("%s: expected %q, but found %q", name, c.want, found)
		}
	}
}

// TestRead: the operator's settings are for the missing fields.
func TestRead(t *testing.T) {
	t.Parallel()
	memory := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}}
	}
	for reason, c := range map[string]struct {
		config tree
		image  string
		memory corev1.ResourceRequirements
		values string
		// unknown are the ignored fields.
		unknown []string
	}{
		"the values of the item count": {
			tree{"resources": tree{"limits": tree{"memory": "2Gi"}}, "importValues": tree{"big": int64(9007199254740993)}},
			"image:1", memory("2Gi"), `{"big":9007199254740993}`, nil,
		},
		"the operator's are for none": {
			tree{"image": nil, "nobody": 1}, "default:1", memory("1Gi"), "", []string{`unknown field "nobody"`},
		},
		"empty resources are no limits": {
			tree{"resources": tree{}}, "image:1", corev1.ResourceRequirements{}, "", nil,
		},
	} {
		found := mustRead(t, configOf(c.config), func(s *Settings) {
			s.DefaultImage, s.Resources, s.Strict = "default:1", memory("1Gi"), false
		})
		if diff := cmp.Diff(c.memory, found.MainResources); diff != "" {
			t.Errorf("%s: resources: -want +got:\n%s", reason, diff)
		}
		if found.Image != c.image || string(found.ImportValues) != c.values || found.Files != nil ||
			!slices.Equal(found.Unknown, c.unknown) {
			t.Errorf("%s: found %+v of %+v", reason, found, found.ProviderConfiguration)
		}
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config tree
		reason string
		says   []string
	}{
		"invalid": {
			configOf(tree{"image": "", "serviceAccountName": "a"}), "ValidateProviderConfiguration",
			[]string{"spec.config: image: Required", "; serviceAccountName: Invalid"},
		},
		"misread": {
			configOf(tree{"image": 5, "imge": ""}), sdk.ReasonConfigInvalid,
			[]string{"image: expected a text", `unknown field "imge"`},
		},
		"kind": {tree{"kind": "X"}, sdk.ReasonConfigInvalid, []string{`found kind "X"`}},
		"none": {nil, sdk.ReasonConfigMissing, []string{"missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, c.config)
			if c.config == nil {
				_, err = Read(&sdk.Request{DeployItem: &landscaper.DeployItem{}}, settings())
			}
			known, ok := errors.AsType[*sdk.Error](err)
			if !ok || known.Reason != c.reason || !slices.Contains(known.Codes, landscaper.ErrorConfigurationProblem) {
				t.Fatalf("expected a problem of the configuration with reason %s, but found %#v", c.reason, err)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("expected %q in %q", text, err)
				}
			}
		})
	}
}

type tree = map[string]any

// configOf returns a provider configuration that is valid, with other fields; a field without a value is removed.
func configOf(fields tree) tree {
	all := tree{
		"apiVersion": "container.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
		"image": "image:1",
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

// settings are those of an operator who says nothing, with changes.
func settings(changes ...func(*Settings)) *Settings {
	s := DefaultSettings()
	for _, change := range changes {
		change(&s)
	}
	return &s
}

func read(t *testing.T, value any, changes ...func(*Settings)) (*Config, error) {
	t.Helper()
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: marshal(t, value)}
	return Read(&sdk.Request{DeployItem: item}, settings(changes...))
}

func mustRead(t *testing.T, value any, changes ...func(*Settings)) *Config {
	t.Helper()
	c, err := read(t, value, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problems are those of a provider configuration, as texts.
func problems(t *testing.T, value any, changes ...func(*Settings)) (texts []string) {
	t.Helper()
	_, err := read(t, value, changes...)
	for _, p := range sdk.ProblemsOf(err) {
		texts = append(texts, p.Field+": "+p.Message)
	}
	return texts
}

// TestQuantities: nobody who may write a deploy item keeps the deployer busy with an amount that takes the library
// minutes, also if another spelling of the field hides it.
func TestQuantities(t *testing.T) {
	t.Parallel()
	costly := tree{"limits": tree{"memory": json.RawMessage("1e-9999999")}}
	found := problems(t, configOf(tree{"resources": costly, "RESOURCES": tree{"limits": tree{}}}))
	if len(found) != 1 || !strings.Contains(found[0], "resources.limits.memory: expected an amount") {
		t.Errorf("found %q", found)
	}
}
