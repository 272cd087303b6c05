package config

import (
	"encoding/json"
	"errors"
	"maps"
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
			s := DefaultSettings()
			problems, err := Problems(document, &s)
			if err != nil {
				t.Fatal(err)
			}
			item := &landscaper.DeployItem{}
			item.Spec.Config = &runtime.RawExtension{Raw: document}
			_, err = Read(&sdk.Request{DeployItem: item}, &s)
			configtest.MustAgree(t, problems, err)
			return problems
		},
	}.Run(t)
}

// Rule (container.md#provider-configuration): `serviceAccountName` must be in the operator's list.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	allow := func(s *Settings) { s.ServiceAccounts = []string{"a", "b"} }
	if found := problems(t, configOf(tree{"serviceAccountName": "b"}), allow); len(found) > 0 {
		t.Errorf("expected an allowed ServiceAccount, but found %q", found)
	}
	const want = `serviceAccountName: Invalid value: "c": the operator allows a, b (serviceAccounts in`
	found := problems(t, configOf(tree{"serviceAccountName": "c"}), allow)
	if len(found) != 1 || !strings.HasPrefix(found[0], want) {
		t.Errorf("expected the allowed ServiceAccounts, but found %q", found)
	}
	// On the target its owner decides.
	onTarget := configOf(tree{"serviceAccountName": "c", "runOnTarget": tree{"namespace": "a"}})
	if found := problems(t, onTarget, allow); len(found) > 0 {
		t.Errorf("expected any ServiceAccount on the target, but found %q", found)
	}
}

// TestRead: what is read is what was written, with what the operator says of the rest.
func TestRead(t *testing.T) {
	t.Parallel()
	memory := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}}
	}
	operator := func(s *Settings) { s.DefaultImage, s.Resources, s.Strict = "default:1", memory("1Gi"), false }

	own := mustRead(t, configOf(tree{"resources": tree{"limits": tree{"memory": "2Gi"}}, "importValues": tree{"big": int64(9007199254740993)}}), operator)
	if own.Image != "image:1" || string(own.ImportValues) != `{"big":9007199254740993}` || len(own.Unknown) > 0 || own.Files != nil {
		t.Errorf("expected what was written, but found %+v of %+v", own, own.ProviderConfiguration)
	}
	if diff := cmp.Diff(memory("2Gi"), own.MainResources); diff != "" {
		t.Errorf("own resources: -want +got:\n%s", diff)
	}
	none := mustRead(t, configOf(tree{"image": nil, "nobody": 1}), operator)
	if none.Image != "default:1" {
		t.Errorf("expected the image of the operator, but found %q", none.Image)
	}
	if diff := cmp.Diff(memory("1Gi"), none.MainResources); diff != "" {
		t.Errorf("resources of the operator: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{`unknown field "nobody"`}, none.Unknown); diff != "" {
		t.Errorf("what was passed over: -want +got:\n%s", diff)
	}
	empty := mustRead(t, configOf(tree{"resources": tree{}}), operator)
	if diff := cmp.Diff(corev1.ResourceRequirements{}, empty.MainResources); diff != "" {
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
				s := DefaultSettings()
				_, err = Read(&sdk.Request{DeployItem: &landscaper.DeployItem{}}, &s)
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
func read(t *testing.T, value any, changes ...func(*Settings)) (*Config, error) {
	t.Helper()
	s := DefaultSettings()
	for _, change := range changes {
		change(&s)
	}
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: marshal(t, value)}
	return Read(&sdk.Request{DeployItem: item}, &s)
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
func problems(t *testing.T, value any, changes ...func(*Settings)) []string {
	t.Helper()
	s := DefaultSettings()
	for _, change := range changes {
		change(&s)
	}
	found, err := Problems(marshal(t, value), &s)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, p := range found {
		texts = append(texts, p.Field+": "+p.Message)
	}
	return texts
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
