package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/settingsfile"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/configtest"
)

const head = "apiVersion: container.pergola.dev/v1alpha1\nkind: ContainerConfiguration\n"

// settingsWith returns the default settings, with changes.
func settingsWith(changes ...func(*Settings)) Settings {
	s := DefaultSettings()
	for _, change := range changes {
		change(&s)
	}
	return s
}

func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	configtest.NewSchema(SettingsSchema).MustHaveFields(t,
		reflect.TypeFor[Settings](), reflect.TypeFor[corev1.ResourceRequirements]())
}

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
		Objects: []string{"podTemplate", "resources"},
		Read: func(t *testing.T, document []byte, _ bool) []sdk.Problem {
			t.Helper()
			_, problems := LoadSettings(document)
			return problems
		},
	}.Run(t)
}

func TestLoadSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, document string
		want             Settings
	}{
		"nothing": {reason: "an operator without wishes gets the defaults", want: settingsWith()},
		"head":    {reason: "each field is optional", document: head, want: settingsWith()},
		"null": {
			reason: "a field without a value is as good as none", want: settingsWith(),
			document: head + "podTemplate:\nresources:\nserviceAccounts:\nlimits:\nimagePullPatience:\n",
		},
		"values": {
			reason:   "each value replaces its default",
			document: head + "strict: false\nimagePullPatience: 1m30s\nlimits: {state: 1M, exports: 1.5Ki}\n",
			want: settingsWith(func(s *Settings) {
				s.Strict = false
				s.ImagePullPatience = settingsfile.Duration{Duration: 90 * time.Second, Text: "1m30s"}
				s.Limits.State = settingsfile.Amount{Bytes: 1_000_000, Text: "1M"}
				s.Limits.Exports = settingsfile.Amount{Bytes: 1536, Text: "1.5Ki"}
			}),
		},
		"one image": {
			reason:   "both containers are the same helper",
			document: head + "initContainer: {image: a, imagePullPolicy: Always}\n",
			want: settingsWith(func(s *Settings) {
				s.InitContainer = pod.Helper{Image: "a", ImagePullPolicy: corev1.PullAlways}
				s.WaitContainer = pod.Helper{Image: "a"}
			}),
		},
		"other arguments": {
			reason:   "the image is that of the init container, whatever else is set",
			document: head + "initContainer: {image: a}\nwaitContainer: {args: [b]}\n",
			want: settingsWith(func(s *Settings) {
				s.InitContainer = pod.Helper{Image: "a"}
				s.WaitContainer = pod.Helper{Image: "a", Args: []string{"b"}}
			}),
		},
	} {
		got, problems := LoadSettings([]byte(c.document))
		if diff := cmp.Diff(c.want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s: %s: found problems %v and settings (-want +got):\n%s", name, c.reason, problems, diff)
		}
	}
}
