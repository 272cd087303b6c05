package charts

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The API server takes everything that is rendered, and the Pods also where the level restricted of Pod Security is
// enforced.
// Rule (SECURITY.md#other-users-of-the-hosts-namespace): The Pods meet the level `restricted` of Pod Security.
func TestAPIServer(t *testing.T) {
	restrict := map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest",
	}
	for namespace, labels := range map[string]map[string]string{
		releaseNamespace: restrict, "pergola-pods": nil, "shop": nil,
	} {
		create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}})
	}
	strict := client.WithFieldValidation(client.NewDryRunClient(admin), metav1.FieldValidationStrict)
	for name, values := range settings {
		t.Run(name, func(t *testing.T) {
			all := mustRender(t, values, newest)
			for _, key := range slices.Sorted(maps.Keys(all)) {
				if strings.HasPrefix(key, "ServiceAccount ") { // without it no Pod is admitted
					create(t, all[key].DeepCopyObject().(client.Object))
				}
			}
			for _, key := range slices.Sorted(maps.Keys(all)) {
				mustBeTaken(t, strict, key, all[key])
				var template corev1.PodTemplateSpec
				switch owner := all[key].(type) {
				case *appsv1.Deployment:
					template = owner.Spec.Template
				case *batchv1.Job:
					template = owner.Spec.Template
				default:
					continue
				}
				mustBeTaken(t, strict, "Pod of "+key, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{
						Namespace: releaseNamespace, Name: "pod", Labels: template.Labels, Annotations: template.Annotations,
					},
					Spec: template.Spec,
				})
			}
		})
	}
	refused := strict.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: releaseNamespace, Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "root", Image: "none"}}},
	})
	if !apierrors.IsForbidden(refused) || !strings.Contains(refused.Error(), "restricted") {
		t.Errorf("expected that other Pods are refused there, but found: %v", refused)
	}
}

// mustBeTaken creates an object as a dry run.
func mustBeTaken(t *testing.T, strict client.Client, key string, o client.Object) {
	t.Helper()
	if err := strict.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Errorf("%s: %v", key, err)
	}
}

// create creates what a test needs, and removes it with the test.
func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), o); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(t.Context()), o); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}
