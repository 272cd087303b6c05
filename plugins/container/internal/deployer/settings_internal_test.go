package deployer

import (
	"encoding/json"
	"reflect"
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

// settingsOptions compare settings but for the texts whose meaning they have.
var settingsOptions = cmp.Options{
	cmp.AllowUnexported(settings{}), cmpopts.IgnoreFields(settingsDocument{}, "TypeMeta", "ImagePullPatience", "Limits"),
	cmp.Transformer("text", func(m json.RawMessage) string { return string(m) }),
}

var settingsSchema = schematest.New(SettingsSchema)

func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	settingsSchema.MustHaveFields(t, reflect.TypeFor[settingsDocument](), reflect.TypeFor[corev1.ResourceRequirements]())
}

func TestLoad(t *testing.T) {
	t.Parallel()
	schematest.MustAccept(t, settingsSchema, map[string]schematest.Accepted[settings]{
		// Rule (container.md#for-operators): An empty ContainerConfiguration means the defaults.
		"nothing": {Reason: "an operator who says nothing gets the defaults", Want: settingsWith()},
		"head":    {Reason: "a document may leave everything out", Document: head, Want: settingsWith()},
		"everything": {
			Reason: "what is said counts",
			Document: head + `
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
			Want: settingsWith(func(s *settings) {
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
			Reason: "both containers are the same helper", Document: head + "initContainer: {image: a, imagePullPolicy: Always}\n",
			Want: settingsWith(func(s *settings) {
				s.InitContainer = pod.Helper{Image: "a", ImagePullPolicy: corev1.PullAlways}
				s.WaitContainer = pod.Helper{Image: "a"}
			}),
		},
		"other arguments": {
			Reason: "the image is that of the init container, whatever else is said", Document: head + "initContainer: {image: a}\nwaitContainer: {args: [b]}\n",
			Want: settingsWith(func(s *settings) {
				s.InitContainer = pod.Helper{Image: "a"}
				s.WaitContainer = pod.Helper{Image: "a", Args: []string{"b"}}
			}),
		},
	}, loadSettings, settingsOptions)
}

func TestLoadReports(t *testing.T) {
	t.Parallel()
	schematest.MustRefuse(t, settingsSchema, map[string]schematest.Refused{
		// Rule (container.md#for-operators): All errors in a ContainerConfiguration are reported at once.
		"all at once": {
			Reason: "nobody wants to find one mistake after the other",
			Document: `
kind: Configuration
image: x
targets: {burst: 0}
namespace: a.b
initContainer: {imagePullPolicy: Sometimes, tag: x}
waitContainer: {imagePullPolicy: never}
serviceAccounts: [a, B, "", a]
resources: {limit: {}}
podTemplate: {metadata: {name: a}, spec: {container: []}, status: {}}
debug: {keepPods: true}
imagePullPatience: 1 minute
limits: {state: '1e3', exports: 1Mi, imports: 1}
garbageCollection: {enable: true}
`,
			Want: []string{
				`: unknown field "debug.keepPods"`, `: unknown field "garbageCollection.enable"`, `: unknown field "image"`, `: unknown field "initContainer.tag"`,
				`: unknown field "limits.imports"`, `: unknown field "resources.limit"`, `: unknown field "targets"`,
				`apiVersion: expected container.pergola.dev/v1alpha1, but found ""`, `kind: expected ContainerConfiguration, but found "Configuration"`,
				`imagePullPatience: expected a time from 0s to 1h0m0s, such as 90s or 1h30m, but found "1 minute"`,
				`limits.state: expected an amount from 1Ki to 100Mi, such as 20Mi, but found "1e3"`,
				"limits.exports: expected an amount from 1Ki to 960Ki, such as 20Mi, but found 1Mi",
				`namespace: expected the name of a namespace, but found "a.b"`,
				`serviceAccounts[1]: expected the name of a ServiceAccount, but found "B"`, `serviceAccounts[2]: expected the name of a ServiceAccount, but found ""`,
				`serviceAccounts[3]: "a" is there twice`,
				`initContainer.imagePullPolicy: expected one of Always, IfNotPresent and Never, but found "Sometimes"`,
				`waitContainer.imagePullPolicy: expected one of Always, IfNotPresent and Never, but found "never"`,
				`podTemplate: unknown field "metadata.name"`, `podTemplate: unknown field "spec.container"`, `podTemplate: unknown field "status"`,
			},
		},
		"type in the template": {
			Reason: "each Pod would be refused", Document: head + "podTemplate: {spec: {containers: {}}}\n",
			Want: []string{"podTemplate.spec.containers: expected a list, but found object"}, Beyond: true,
		},
		"wrong type": {Reason: "the field is named", Document: head + "limits: {state: 20}\n", Want: []string{"limits.state: expected string, but found number"}},
	}, loadSettings)
}

// TestNoTemplate: a field without a value is as good as none.
func TestNoTemplate(t *testing.T) {
	t.Parallel()
	s, problems := loadSettings([]byte(head + "podTemplate:\nresources:\nserviceAccounts:\nlimits:\n"))
	if diff := cmp.Diff(settingsWith(), s, settingsOptions); diff != "" || len(problems) > 0 {
		t.Errorf("found problems %v and settings (-want +got):\n%s", problems, diff)
	}
}
