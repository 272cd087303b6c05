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
	nothing := func(*corev1.Pod) {}
	for _, c := range []struct {
		name, overlay string
		change        func(*corev1.Pod)
	}{
		{"empty", `{}`, nothing},
		{"spec", `{"spec":{"priorityClassName":"low","restartPolicy":"OnFailure"}}`, func(p *corev1.Pod) {
			p.Spec.PriorityClassName, p.Spec.RestartPolicy = "low", corev1.RestartPolicyOnFailure
		}},
		// Rule (container.md#for-operators): `podTemplate` adds labels and annotations.
		{"labels", `{"metadata":{"labels":{"team":"a"},"annotations":{"b":"c"}}}`, func(p *corev1.Pod) {
			p.Labels["team"], p.Annotations["b"] = "a", "c"
		}},
		// Rule (container.md#for-operators): `podTemplate` merges containers by name.
		{
			"container", `{"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"1Gi"}}}]}}`,
			func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
			},
		},
		// The deployer finds the Pod by these.
		// Rule (container.md#for-operators): `podTemplate` cannot change the name of a Pod.
		{"name", `{"metadata":{"name":"mine","namespace":"others","finalizers":null,` +
			`"labels":{"` + ItemLabel + `":"x"},"annotations":{"` + JobAnnotation + `":"x"}}}`, nothing},
		{"removal", `{"metadata":{"name":null,"namespace":null,"labels":{"` + ItemLabel + `":null}}}`, nothing},
		{"no metadata", `{"metadata":null}`, nothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := podOf(t, shop(), overlaid(""))
			c.change(want)
			if diff := cmp.Diff(want, podOf(t, shop(), overlaid(c.overlay))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	const unmerged = "merge podTemplate into the Pod"
	for overlay, want := range map[string]string{
		`[]`: unmerged, `{`: unmerged, `{"spec":{"containers":[{"image":"x"}]}}`: unmerged,
		`{"spec":{"nodeName":5}}`: "read the Pod with podTemplate in it",
	} {
		if _, err := shop().Pod(overlaid(overlay)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: expected an error with %q, but found %v", overlay, want, err)
		}
	}
}
