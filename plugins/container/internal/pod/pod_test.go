package pod

import (
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

// TestPods: the golden files have all parts of a Pod. Images of Landscaper's users read its variables.
// Rule (container.md#contract-with-the-image): The image runs as user 1000, group 3000, fsGroup 2000.
// Rule (container.md#contract-with-the-image): The image has the variables of Landscaper's contract.
func TestPods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		operation v1alpha1.Operation
		template  *Template
		// mounts are those of main.
		mounts []string
	}{
		// Rule (container.md#credentials-in-the-pod): `main` has no token.
		{"minimal", v1alpha1.OperationReconcile, template(), []string{"shared"}},
		{"state", v1alpha1.OperationReconcile, template(withState), []string{"shared"}},
		// Rule (container.md#credentials-in-the-pod): `main` has a token only with `serviceAccountName`.
		{"full", v1alpha1.OperationDelete, template(withDeadline, withState, withAccount, func(t *Template) {
			t.Command, t.Args, t.PullSecrets = []string{"/run"}, []string{"-v"}, true
			t.Init.Command, t.Init.Args = []string{"/helper"}, []string{"init", "-v"}
			t.NodeSelector, t.Tolerations = map[string]string{"zone": "a"}, []corev1.Toleration{{Key: "taint"}}
			t.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		}), []string{"shared", "service-account"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			i := shop()
			i.Operation = c.operation
			pod := podOf(t, i, c.template)
			plugintest.Golden(t, c.name+".yaml", pod)
			var mounts []string
			for _, m := range pod.Spec.Containers[0].VolumeMounts {
				mounts = append(mounts, m.Name)
			}
			if diff := cmp.Diff(c.mounts, mounts); diff != "" {
				t.Errorf("mounts of main: -want +got:\n%s", diff)
			}
		})
	}
}

// TestDeadline: a Pod does not outlive its job; Kubernetes accepts no deadline below a second.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for deadline, want := range map[time.Duration]*int64{
		0: nil, time.Millisecond: new(int64(1)), 1999 * time.Millisecond: new(int64(1)),
	} {
		pod := podOf(t, shop(), template(func(t *Template) { t.Deadline = deadline }))
		if diff := cmp.Diff(want, pod.Spec.ActiveDeadlineSeconds); diff != "" {
			t.Errorf("%s: -want +got:\n%s", deadline, diff)
		}
	}
}
