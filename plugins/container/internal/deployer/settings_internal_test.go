package deployer

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/schematest"
)

const head = "apiVersion: container.pergola.dev/v1alpha1\nkind: ContainerConfiguration\n"

// settingsWith returns the settings of an operator who says nothing, with changes.
func settingsWith(changes ...func(*settings)) settings {
	s := settings{patience: time.Minute, stateBytes: 10_485_760, exportBytes: 524_288}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// diffSettings compares settings but for the texts whose meaning they have.
func diffSettings(want, got settings) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(settings{}), cmpopts.IgnoreFields(settingsDocument{}, "TypeMeta", "ImagePullPatience", "Limits"),
		cmp.Transformer("text", func(m json.RawMessage) string { return string(m) }))
}

var settingsSchema = schematest.New(SettingsSchema)

func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	settingsSchema.MustHaveFields(t, reflect.TypeFor[settingsDocument](), reflect.TypeFor[corev1.ResourceRequirements]())
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, document string
		want             settings
	}{
		"nothing": {reason: "an operator who says nothing gets the defaults", want: settingsWith()},
		"head":    {reason: "a document may leave everything out", document: head, want: settingsWith()},
		"everything": {
			reason: "what is said counts",
			document: head + `
strict: false
namespace: runs
defaultImage: image:1
initContainer: {image: "helper:1", command: [/helper], args: [init, -v], imagePullPolicy: Always}
waitContainer: {image: "helper:2", command: [/wait], args: [wait], imagePullPolicy: Never}
serviceAccounts: [a, b.c]
resources: {limits: {memory: 1Gi}}
podTemplate: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {nodeName: e}}
debug: {keepPod: true}
imagePullPatience: 1m30s
limits: {state: 1M, exports: 1.5Ki}
garbageCollection: {disable: true}
`,
			want: settingsWith(func(s *settings) {
				s.Strict, s.Namespace, s.DefaultImage, s.ServiceAccounts = new(false), "runs", "image:1", []string{"a", "b.c"}
				s.InitContainer = pod.Helper{Image: "helper:1", Command: []string{"/helper"}, Args: []string{"init", "-v"}, ImagePullPolicy: corev1.PullAlways}
				s.WaitContainer = pod.Helper{Image: "helper:2", Command: []string{"/wait"}, Args: []string{"wait"}, ImagePullPolicy: corev1.PullNever}
				s.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
				s.PodTemplate = json.RawMessage(`{"metadata":{"annotations":{"c":"d"},"labels":{"a":"b"}},"spec":{"nodeName":"e"}}`)
				s.Debug.KeepPod, s.GarbageCollection.Disable = true, true
				s.patience, s.stateBytes, s.exportBytes = 90*time.Second, 1_000_000, 1536
			}),
		},
		"one image": {
			reason: "both containers are the same helper", document: head + "initContainer: {image: a, imagePullPolicy: Always}\n",
			want: settingsWith(func(s *settings) {
				s.InitContainer = pod.Helper{Image: "a", ImagePullPolicy: corev1.PullAlways}
				s.WaitContainer = pod.Helper{Image: "a"}
			}),
		},
		"other arguments": {
			reason: "the image is that of the init container, whatever else is said", document: head + "initContainer: {image: a}\nwaitContainer: {args: [b]}\n",
			want: settingsWith(func(s *settings) {
				s.InitContainer = pod.Helper{Image: "a"}
				s.WaitContainer = pod.Helper{Image: "a", Args: []string{"b"}}
			}),
		},
		"most": {
			reason: "the upper ones are, too", document: head + "imagePullPatience: 1h\nlimits: {state: 100Mi, exports: 960Ki}\n",
			want: settingsWith(func(s *settings) {
				s.patience, s.stateBytes, s.exportBytes = time.Hour, 104_857_600, 983_040
			}),
		},
		"JSON": {
			reason: "the host hands JSON over", document: `{"apiVersion":"container.pergola.dev/v1alpha1","kind":"ContainerConfiguration","namespace":"a"}`,
			want: settingsWith(func(s *settings) { s.Namespace = "a" }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := loadSettings([]byte(c.document))
			if c.document != "" {
				if err := settingsSchema.Validate(t, []byte(c.document)); err != nil {
					t.Errorf("%s: the schema refuses it: %v", c.reason, err)
				}
			}
			if len(problems) > 0 {
				t.Errorf("%s: %v", c.reason, problems)
			}
			if diff := diffSettings(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestLoadReports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, document string
		want             []string
		// beyond says that a JSON schema cannot tell.
		beyond bool
	}{
		"all at once": {
			reason: "nobody wants to find one mistake after the other",
			document: `
kind: Configuration
image: x
targets: {burst: 0}
namespace: a/b
initContainer: {imagePullPolicy: Sometimes, tag: x}
waitContainer: {imagePullPolicy: never}
serviceAccounts: [a, B, "", a]
podTemplate: {metadata: {name: a}, spec: {container: []}, status: {}}
debug: {keepPods: true}
imagePullPatience: 1 minute
limits: {state: '1e3', exports: 1Mi, imports: 1}
garbageCollection: {enable: true}
`,
			want: []string{
				`: unknown field "debug.keepPods"`, `: unknown field "garbageCollection.enable"`, `: unknown field "image"`, `: unknown field "initContainer.tag"`,
				`: unknown field "limits.imports"`, `: unknown field "targets"`,
				`apiVersion: expected container.pergola.dev/v1alpha1, but found ""`, `kind: expected ContainerConfiguration, but found "Configuration"`,
				`imagePullPatience: expected a time from 0s to 1h0m0s, such as 90s or 1h30m, but found "1 minute"`,
				`limits.state: expected an amount from 1Ki to 100Mi, such as 20Mi, but found "1e3"`,
				"limits.exports: expected an amount from 1Ki to 960Ki, such as 20Mi, but found 1Mi",
				`namespace: expected the name of a namespace, but found "a/b"`,
				`serviceAccounts[1]: expected the name of a ServiceAccount, but found "B"`, `serviceAccounts[2]: expected the name of a ServiceAccount, but found ""`,
				`serviceAccounts[3]: "a" is there twice`,
				`initContainer.imagePullPolicy: expected one of Always, IfNotPresent and Never, but found "Sometimes"`,
				`waitContainer.imagePullPolicy: expected one of Always, IfNotPresent and Never, but found "never"`,
				`podTemplate: unknown field "metadata.name"`, `podTemplate: unknown field "spec.container"`, `podTemplate: unknown field "status"`,
			},
		},
		"namespace": {
			reason: "a name with dots is no namespace", document: head + "namespace: a.b\n", want: []string{`namespace: expected the name of a namespace, but found "a.b"`}, beyond: true,
		},
		"patience": {
			reason: "nobody waits for less than no time", document: head + "imagePullPatience: -1s\n", want: []string{"imagePullPatience: expected a time from 0s"}, beyond: true,
		},
		"exports": {
			reason: "they share a Secret with the report", document: head + "limits: {exports: 961Ki}\n", want: []string{"limits.exports: expected an amount from 1Ki to 960Ki"}, beyond: true,
		},
		"type in the template": {
			reason: "each Pod would be refused", document: head + "podTemplate: {spec: {containers: {}}}\n",
			want: []string{"podTemplate.spec.containers: expected a list, but found object"}, beyond: true,
		},
		"list as template": {reason: "a Pod is an object", document: head + "podTemplate: []\n", want: []string{"podTemplate: expected an object, but found array"}},
		"resources":        {reason: "they are read with the types of Kubernetes", document: head + "resources: {limit: {}}\n", want: []string{`: unknown field "resources.limit"`}, beyond: true},
		"wrong type":       {reason: "the field is named", document: head + "limits: {state: 20}\n", want: []string{"limits.state: expected string, but found number"}},
		"twice":            {reason: "one of the two would be lost", document: "strict: true\nstrict: false\n", want: []string{": expected YAML or JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := loadSettings([]byte(c.document))
			if !c.beyond && settingsSchema.Validate(t, []byte(c.document)) == nil {
				t.Errorf("%s: the schema accepts it", c.reason)
			}
			var found []string
			for _, p := range problems {
				found = append(found, p.Field+": "+p.Message)
			}
			if len(found) != len(c.want) {
				t.Fatalf("%s: expected %d problems, but found:\n%s", c.reason, len(c.want), strings.Join(found, "\n"))
			}
			for i, want := range c.want {
				if !strings.HasPrefix(found[i], want) {
					t.Errorf("%s: expected %q, but found %q", c.reason, want, found[i])
				}
			}
		})
	}
}

// TestNoTemplate: a field without a value is as good as none.
func TestNoTemplate(t *testing.T) {
	t.Parallel()
	s, problems := loadSettings([]byte(head + "podTemplate:\nresources:\nserviceAccounts:\nlimits:\n"))
	if diff := diffSettings(settingsWith(), s); diff != "" || len(problems) > 0 {
		t.Errorf("found problems %v and settings (-want +got):\n%s", problems, diff)
	}
}
