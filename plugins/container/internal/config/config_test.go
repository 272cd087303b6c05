package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/plugins/container/internal/settings"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const needsResolver = "Invalid value: is a reference to a repository of components, which this deployer does not know; " +
	"give it inline, or run a plugin with a resolver"

func TestProblems(t *testing.T) {
	t.Parallel()
	inline := func(filesystem any) object {
		return object{"blueprint": object{"inline": object{"filesystem": filesystem}}}
	}
	for name, c := range map[string]struct {
		reason   string
		config   any
		resolves bool
		change   func(*settings.Settings)
		// want are how the problems begin; none for a configuration that is valid.
		want []string
	}{
		"least": {reason: "an image is all that is needed", config: document(nil)},
		"everything": {
			reason: "all fields may stand together", change: allowing("a", "b"),
			config: document(object{
				"command": []string{"a"}, "args": []string{"b"}, "importValues": object{"x": 1},
				"blueprint": object{"inline": object{"filesystem": object{"a": "b"}}}, "componentDescriptor": object{"inline": object{}},
				"registryPullSecrets": []any{object{"name": "a", "namespace": "b"}}, "continuousReconcile": object{"every": "1h"},
				"resources": object{"limits": object{"memory": "1Gi"}}, "nodeSelector": object{"a": "b"},
				"tolerations": []any{object{"operator": "Exists"}}, "serviceAccountName": "b",
			}),
		},
		"all at once": {
			reason: "nobody wants to find one mistake after the other",
			config: object{
				"kind": "", "imag": "x", "args": "-v", "blueprint": object{}, "componentDescriptor": object{"inline": []any{}},
				"registryPullSecrets": []any{object{}, object{"name": "a", "namespace": "b"}, object{"name": "a"}},
				"continuousReconcile": object{"cron": "now"}, "serviceAccountName": "a",
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
			reason: "the accepted one is named", config: document(object{"kind": "Configuration"}),
			want: []string{`spec.config: spec.config: expected kind ProviderConfiguration of apiVersion container.deployer.landscaper.gardener.cloud/v1alpha1, but found kind "Configuration"`},
		},
		"version": {reason: "there is one version", config: document(object{"apiVersion": "container.deployer.landscaper.gardener.cloud/v1"}), want: []string{"spec.config: "}},
		"list":    {reason: "a list is no configuration", config: []any{}, want: []string{": expected an object, but found a list"}},

		"unknown fields": {
			reason: "a typing error is not passed over", config: document(object{"imge": "a", "runOnTarget": object{"namespace": "a", "cluster": "b"}}),
			want: []string{`spec.config: unknown field "imge"`, `spec.config: unknown field "runOnTarget.cluster"`},
		},
		"unknown fields, leniently": {reason: "Landscaper passes them over", config: document(object{"imge": "a"}), change: lenient},
		"unknown in what is free": {
			reason: "what only the image knows is not looked at",
			config: document(object{"importValues": object{"x": object{"y": 1}}, "componentDescriptor": object{"inline": object{"x": 1}}}),
		},

		"default image": {
			reason: "the operator may have one", config: document(object{"image": nil}),
			change: func(s *settings.Settings) { s.DefaultImage = "default:1" },
		},

		"blueprint twice": {
			reason: "nobody knows which one is meant", resolves: true,
			config: document(object{"blueprint": object{"ref": object{"resourceName": "a"}, "inline": object{"filesystem": object{}}}}),
			want:   []string{"blueprint: Invalid value: has both ref and inline"},
		},
		"blueprint away":      {reason: "the user learns what to do", config: document(object{"blueprint": object{"ref": object{"resourceName": "a"}}}), want: []string{"blueprint.ref: " + needsResolver}},
		"blueprint resolved":  {reason: "a resolver is asked", resolves: true, config: document(object{"blueprint": object{"ref": object{"resourceName": "a"}}})},
		"blueprint of nobody": {reason: "a resolver needs a name", resolves: true, config: document(object{"blueprint": object{"ref": object{}}}), want: []string{"blueprint.ref.resourceName: Required"}},
		"blueprint without files": {
			reason: "an inline one has files", config: document(object{"blueprint": object{"inline": object{}}}), want: []string{"blueprint.inline.filesystem: Invalid value: expected an object"},
		},
		"files":          {reason: "a file system is an object", config: document(inline([]any{})), want: []string{"blueprint.inline.filesystem: Invalid value: expected an object with files"}},
		"no YAML":        {reason: "what stands in a file is not quoted", config: document(inline("a: {hunter2")), want: []string{"blueprint.inline.filesystem: Invalid value: expected a file system as an object, or as a text"}},
		"hostile name":   {reason: "no file is written elsewhere", config: document(inline(object{"a": object{"..": object{"b": "c"}}})), want: []string{`blueprint.inline.filesystem: Invalid value: ".." in "/a" is no name of a file`}},
		"not a filename": {reason: "the first one is named, each time", config: document(inline(object{"y/": "", "x/": "", "z/": ""})), want: []string{`blueprint.inline.filesystem: Invalid value: "x/" in "/" is no name of a file`}},

		"descriptor twice": {
			reason: "nobody knows which one is meant", resolves: true,
			config: document(object{"componentDescriptor": object{"ref": object{"componentName": "a", "version": "1"}, "inline": object{}}}),
			want:   []string{"componentDescriptor: Invalid value: has both ref and inline"},
		},
		"descriptor with nothing": {reason: "null is nothing", config: document(object{"componentDescriptor": object{"inline": nil}}), want: []string{"componentDescriptor: Required value: expected ref or inline"}},
		"descriptor as a text":    {reason: "the image expects an object", config: document(object{"componentDescriptor": object{"inline": "meta: {}"}}), want: []string{"componentDescriptor.inline: Invalid value: expected an object"}},
		"descriptor away": {
			reason: "the user learns what to do", config: document(object{"componentDescriptor": object{"ref": object{"componentName": "a", "version": "1"}}}),
			want: []string{"componentDescriptor.ref: " + needsResolver},
		},
		"descriptor resolved": {
			reason: "a resolver is asked", resolves: true,
			config: document(object{"componentDescriptor": object{"ref": object{"componentName": "a", "version": "1", "repositoryContext": object{"type": "x"}}}}),
		},

		"schedules": {reason: "one of the two at most is allowed", config: document(object{"continuousReconcile": object{"every": "1h", "cron": "@daily"}}), want: []string{"continuousReconcile: Invalid value: "}},

		"account":       {reason: "the allowed ones are named", config: document(object{"serviceAccountName": "c"}), change: allowing("a", "b"), want: []string{`serviceAccountName: Invalid value: "c": the operator allows a, b (serviceAccounts in`}},
		"part of one":   {reason: "a name is the whole name", config: document(object{"serviceAccountName": "a"}), change: allowing("ab"), want: []string{"serviceAccountName: "}},
		"on the target": {reason: "that is for whom the target belongs to", config: document(object{"serviceAccountName": "c", "runOnTarget": object{"namespace": "a"}})},
		"namespace":     {reason: "it is required", config: document(object{"runOnTarget": object{}}), want: []string{`runOnTarget.namespace: Invalid value: "": expected the name of a namespace: `}},
		"bad namespace": {reason: "a path is no namespace", config: document(object{"runOnTarget": object{"namespace": "../a"}}), want: []string{"runOnTarget.namespace: "}},

		"types in parts": {
			reason: "each is named, and what follows from it is not",
			config: document(object{"image": 5, "runOnTarget": object{"namespace": 7}, "registryPullSecrets": []any{object{"name": true, "namespace": "a"}}, "tolerations": "all"}),
			want: []string{
				"image: expected a text, but found a number", "registryPullSecrets[0].name: expected a text", "runOnTarget.namespace: expected a text", "tolerations: expected a list",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := c.change
			if change == nil {
				change = func(*settings.Settings) {}
			}
			found := problems(t, c.config, c.resolves, change)
			if len(found) != len(c.want) {
				t.Fatalf("%s: expected %d problems, but found:\n%s", c.reason, len(c.want), strings.Join(found, "\n"))
			}
			for _, want := range c.want {
				if !containsBeginning(found, want) {
					t.Errorf("%s: expected %q in:\n%s", c.reason, want, strings.Join(found, "\n"))
				}
			}
			if text := strings.Join(found, "\n"); strings.Contains(text, "hunter2") {
				t.Errorf("%s: a problem quotes a file: %s", c.reason, text)
			}
		})
	}
}

func containsBeginning(texts []string, beginning string) bool {
	for _, text := range texts {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	return false
}

// TestRead: what is read is what was written, with what the operator says of the rest.
func TestRead(t *testing.T) {
	t.Parallel()
	memory := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(amount)}}
	}
	operator := func(s *settings.Settings) { s.DefaultImage, s.Resources, s.Strict = "default:1", memory("1Gi"), false }

	own := mustRead(t, document(object{"resources": object{"limits": object{"memory": "2Gi"}}, "importValues": object{"big": int64(9007199254740993)}}), operator)
	if own.Image != "image:1" || string(own.ImportValues) != `{"big":9007199254740993}` || len(own.Unknown) > 0 || own.Files != nil {
		t.Errorf("expected what was written, but found %+v of %+v", own, own.ProviderConfiguration)
	}
	if diff := cmp.Diff(memory("2Gi"), own.Resources); diff != "" {
		t.Errorf("own resources: -want +got:\n%s", diff)
	}
	none := mustRead(t, document(object{"image": nil, "nobody": 1}), operator)
	if none.Image != "default:1" {
		t.Errorf("expected the image of the operator, but found %q", none.Image)
	}
	if diff := cmp.Diff(memory("1Gi"), none.Resources); diff != "" {
		t.Errorf("resources of the operator: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{`unknown field "nobody"`}, none.Unknown); diff != "" {
		t.Errorf("what was passed over: -want +got:\n%s", diff)
	}
	empty := mustRead(t, document(object{"resources": object{}}), operator)
	if diff := cmp.Diff(corev1.ResourceRequirements{}, empty.Resources); diff != "" {
		t.Errorf("who wants no limits writes them down: -want +got:\n%s", diff)
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason         string
		config         object
		wantReason     string
		wantTexts      []string
		withoutAnyItem bool
	}{
		"invalid": {
			reason: "all is in one error", config: document(object{"image": "", "serviceAccountName": "a"}), wantReason: "ValidateProviderConfiguration",
			wantTexts: []string{"spec.config: image: Required", "; serviceAccountName: Invalid"},
		},
		"misread": {
			reason: "so are the mistakes of the other kind", config: document(object{"image": 5, "imge": ""}), wantReason: sdk.ReasonConfigInvalid,
			wantTexts: []string{"image: expected a text", `unknown field "imge"`},
		},
		"kind": {reason: "the document may be for somebody else", config: object{"kind": "X"}, wantReason: sdk.ReasonConfigInvalid, wantTexts: []string{`found kind "X"`}},
		"none": {reason: "an item may have none", withoutAnyItem: true, wantReason: sdk.ReasonConfigMissing, wantTexts: []string{"missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, c.config)
			if c.withoutAnyItem {
				s := settings.Default()
				_, err = config.Read(&sdk.Request{DeployItem: &landscaper.DeployItem{}}, &s, false)
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

// TestPlace: what is read of it is what Pods are created with.
func TestPlace(t *testing.T) {
	t.Parallel()
	c := mustRead(t, document(object{"runOnTarget": object{"namespace": "a"}, "serviceAccountName": "b"}))
	if diff := cmp.Diff(&v1alpha1.RunOnTarget{Namespace: "a"}, c.RunOnTarget); diff != "" || c.ServiceAccountName != "b" {
		t.Errorf("found account %q and place (-want +got):\n%s", c.ServiceAccountName, diff)
	}
}
