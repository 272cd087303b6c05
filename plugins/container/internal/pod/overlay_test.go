package pod

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func overlaid(overlay string) *Template {
	return template(withDeadline, withState, withAccount, func(t *Template) { t.Overlay = json.RawMessage(overlay) })
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, overlay string
		change          func(*corev1.Pod)
	}{
		"empty": {reason: "nothing is changed", overlay: `{}`, change: func(*corev1.Pod) {}},
		"spec": {
			reason:  "what stands in both is that of the operator",
			overlay: `{"spec":{"priorityClassName":"low","restartPolicy":"OnFailure"}}`,
			change: func(pod *corev1.Pod) {
				pod.Spec.PriorityClassName, pod.Spec.RestartPolicy = "low", corev1.RestartPolicyOnFailure
			},
		},
		// Rule (container.md#for-operators): `podTemplate` adds labels and annotations.
		"labels": {
			reason: "those of the operator come on top", overlay: `{"metadata":{"labels":{"team":"a"},"annotations":{"b":"c"}}}`,
			change: func(pod *corev1.Pod) { pod.Labels["team"], pod.Annotations["b"] = "a", "c" },
		},
		// Rule (container.md#for-operators): `podTemplate` merges containers by name.
		"container": {
			reason:  "containers are told apart by their names",
			overlay: `{"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"1Gi"}}}]}}`,
			change: func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
			},
		},
		// Rule (container.md#for-operators): `podTemplate` cannot change the name of a Pod.
		"name": {
			reason: "by these the Pod is found",
			overlay: `{"metadata":{"name":"mine","namespace":"others","finalizers":null,` +
				`"labels":{"` + ItemLabel + `":"x"},"annotations":{"` + JobAnnotation + `":"x"}}}`,
			change: func(*corev1.Pod) {},
		},
		"removal": {
			reason:  "nor can it be lost by a removal",
			overlay: `{"metadata":{"name":null,"namespace":null,"labels":{"` + ItemLabel + `":null}}}`,
			change:  func(*corev1.Pod) {},
		},
		"no metadata": {reason: "nor by that of all of them", overlay: `{"metadata":null}`, change: func(*corev1.Pod) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := podOf(t, shop(), overlaid(""))
			c.change(want)
			if diff := cmp.Diff(want, podOf(t, shop(), overlaid(c.overlay))); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestOverlayThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reason, overlay, want string }{
		"list":    {reason: "a Pod is no list", overlay: `[]`, want: "merge podTemplate into the Pod"},
		"no JSON": {reason: "nobody knows what it means", overlay: `{`, want: "merge podTemplate into the Pod"},
		"nameless": {
			reason: "nobody knows which container is meant", overlay: `{"spec":{"containers":[{"image":"x"}]}}`,
			want: "merge podTemplate into the Pod",
		},
		"type": {
			reason: "Kubernetes does not take it", overlay: `{"spec":{"nodeName":5}}`,
			want: "read the Pod with podTemplate in it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := shop().Pod(overlaid(c.overlay))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: expected an error with %q, but found %v", c.reason, c.want, err)
			}
		})
	}
}
