package pod

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// template is the template of most Pods.
func template(changes ...func(*Template)) *Template {
	t := &Template{
		Image: "image:1", Inputs: 2,
		Init: Helper{Image: "helper:1"}, Wait: Helper{Image: "helper:2", ImagePullPolicy: corev1.PullAlways},
	}
	for _, change := range changes {
		change(t)
	}
	return t
}

func withAccount(t *Template)  { t.ServiceAccountName = "account" }
func withState(t *Template)    { t.OldState = []string{"old-0", "old-1"} }
func withDeadline(t *Template) { t.Deadline = 90*time.Second + 999*time.Millisecond }

func podOf(t *testing.T, i Identity, template *Template) *corev1.Pod {
	t.Helper()
	pod, err := i.Pod(template)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestPods: the golden files have all that a Pod is made of. Images of Landscaper's users read its variables.
// Rule (container.md#contract-with-the-image): The image runs as user 1000, group 3000, fsGroup 2000.
// Rule (container.md#contract-with-the-image): The image has the variables of Landscaper's contract.
func TestPods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		operation v1alpha1.Operation
		template  *Template
	}{
		"minimal": {v1alpha1.OperationReconcile, template()},
		"state":   {v1alpha1.OperationReconcile, template(withState)},
		"full": {v1alpha1.OperationDelete, template(withDeadline, withState, withAccount, func(t *Template) {
			t.Command, t.Args, t.PullSecrets = []string{"/run"}, []string{"-v"}, true
			t.Init.Command, t.Init.Args = []string{"/helper"}, []string{"init", "-v"}
			t.NodeSelector, t.Tolerations = map[string]string{"zone": "a"}, []corev1.Toleration{{Key: "taint"}}
			t.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := shop()
			i.Operation = c.operation
			plugintest.Golden(t, name+".yaml", podOf(t, i, c.template))
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct{ deadline, want time.Duration }{
		"a job without a timeout has none": {}, "Kubernetes takes none below a second": {
			deadline: time.Millisecond, want: time.Second,
		},
		"a Pod does not outlive its job": {deadline: 1999 * time.Millisecond, want: time.Second},
	} {
		pod := podOf(t, shop(), template(func(t *Template) { t.Deadline = c.deadline }))
		found := pod.Spec.ActiveDeadlineSeconds
		if c.want == 0 && found != nil || c.want > 0 && (found == nil || *found != int64(c.want/time.Second)) {
			t.Errorf("%s: found %v", reason, found)
		}
	}
}

// TestMounts: no container sees the volumes of another one, and each volume is mounted.
func TestMounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason   string
		template *Template
		want     map[string][]string
	}{
		// Rule (container.md#credentials-in-the-pod): `main` has no token.
		"plain": {
			reason: "main needs no access to a cluster", template: template(),
			want: map[string][]string{
				"init": {"shared", "input", "authorities"}, "wait": {"shared", "access"}, "main": {"shared"},
			},
		},
		// Rule (container.md#credentials-in-the-pod): `main` has a token only with `serviceAccountName`.
		"account": {
			reason: "an account is for main", template: template(withAccount),
			want: map[string][]string{
				"init": {"shared", "input", "authorities"}, "wait": {"shared", "access"}, "main": {"shared", "service-account"},
			},
		},
		"state": {
			reason: "the state is unpacked by init", template: template(withState),
			want: map[string][]string{
				"init": {"shared", "input", "authorities", "old-state"}, "wait": {"shared", "access"}, "main": {"shared"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := podOf(t, shop(), c.template)
			found, mounted := map[string][]string{}, map[string]bool{}
			for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				for _, m := range container.VolumeMounts {
					found[container.Name] = append(found[container.Name], m.Name)
					mounted[m.Name] = true
					if !m.ReadOnly && m.Name != "shared" {
						t.Errorf("expected %s of %s to be read-only", m.Name, container.Name)
					}
				}
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			for _, v := range pod.Spec.Volumes {
				if !mounted[v.Name] {
					t.Errorf("expected volume %s once, mounted", v.Name)
				}
				delete(mounted, v.Name)
			}
			if len(mounted) > 0 {
				t.Errorf("expected volumes %v", mounted)
			}
		})
	}
}
