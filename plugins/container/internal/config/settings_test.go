package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
	"github.com/pergola-deploy/pergola/test/configtest"
)

const head = "apiVersion: container.pergola.dev/v1alpha1\nkind: ContainerConfiguration\n"

// Rule (container.md#for-operators): An empty ContainerConfiguration means the defaults.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	if !s.Strict || s.ImagePullPatience.Duration != time.Minute || s.Limits.State.Bytes != 10_485_760 ||
		s.Limits.Exports.Bytes != 524_288 {
		t.Errorf("expected the documented defaults, but found %+v", s)
	}
}

// Rule (container.md#for-operators): All errors in a ContainerConfiguration are reported at once.
func TestSettings(t *testing.T) {
	t.Parallel()
	configtest.Suite{
		Files: "testdata/settings/*.yaml", Schema: configtest.NewSchema(SettingsSchema),
		Type: reflect.TypeFor[Settings](), Open: []reflect.Type{reflect.TypeFor[corev1.ResourceRequirements]()},
		Objects: []string{"podTemplate", "resources"}, Read: configtest.Load(LoadSettings),
	}.Run(t)
}

func TestLoadSettings(t *testing.T) {
	t.Parallel()
	for document, change := range map[string]func(*Settings){
		"": func(*Settings) {}, head: func(*Settings) {},
		head + "podTemplate:\nresources:\nserviceAccounts:\nlimits:\nimagePullPatience:\n": func(*Settings) {},
		head + "strict: false\nimagePullPatience: 1m30s\nlimits: {state: 1M, exports: 1.5Ki}\n": func(s *Settings) {
			s.Strict = false
			s.ImagePullPatience = pluginconfig.Duration{Duration: 90 * time.Second, Text: "1m30s"}
			s.Limits.State = pluginconfig.Amount{Bytes: 1_000_000, Text: "1M"}
			s.Limits.Exports = pluginconfig.Amount{Bytes: 1536, Text: "1.5Ki"}
		},
		// Both containers have the same helper.
		head + "initContainer: {image: a, imagePullPolicy: Always}\n": func(s *Settings) {
			s.InitContainer = pod.Helper{Image: "a", ImagePullPolicy: corev1.PullAlways}
			s.WaitContainer = pod.Helper{Image: "a"}
		},
		head + "initContainer: {image: a}\nwaitContainer: {args: [b]}\n": func(s *Settings) {
			s.InitContainer = pod.Helper{Image: "a"}
			s.WaitContainer = pod.Helper{Image: "a", Args: []string{"b"}}
		},
	} {
		want := DefaultSettings()
		change(&want)
		got, problems := LoadSettings([]byte(document))
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s: problems %v, -want +got:\n%s", document, problems, diff)
		}
	}
}
