package standalone

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newMetadata() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	return meta
}

// TestReconcileAfter: what happens to the status of an item costs one read at the end of its time, and what needs an
// answer has it at once.
func TestReconcileAfter(t *testing.T) {
	const never time.Duration = -1
	type meta = metav1.PartialObjectMetadata
	foreign := func(m *meta) { m.Annotations[v1alpha1.DeployerTypeAnnotation] = "test.pergola.dev/other" }
	asked := func(m *meta) {
		foreign(m)
		m.Annotations[v1alpha1.OperationAnnotation] = v1alpha1.OperationReconcile
	}
	for _, tc := range []struct {
		reason   string
		change   func(*meta)
		jobLater bool
		options  Options
		want     time.Duration
	}{
		{"its status may be a new job of somebody else", func(*meta) {}, false, allTimeouts, allTimeouts.pickup()},
		{"jobs come and go without us", func(*meta) {}, false, Options{}, never},
		{"it may be the end of the job under way", func(*meta) {}, true, allTimeouts, 0},
		{"the cache says the same once more", func(m *meta) { m.ResourceVersion = "1" }, true, allTimeouts, never},
		{"a changed spec needs a job", func(m *meta) { m.Generation++ }, false, allTimeouts, 0},
		{"annotations are put back", func(m *meta) { m.Annotations = nil }, false, allTimeouts, 0},
		{"a type of others is no business of ours", foreign, true, allTimeouts, never},
		{"who asks is to know that nobody hears it", asked, false, allTimeouts, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			before := newMetadata()
			before.Namespace, before.Name, before.Generation, before.ResourceVersion = "ns", "item", 1, "1"
			before.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(testType)}
			after := before.DeepCopy()
			after.ResourceVersion = "2"
			tc.change(after)
			serves := func(itemType v1alpha1.DeployItemType) bool { return itemType == testType }
			s := &Setter{serves: serves, options: tc.options, memory: newMemory()}
			s.memory.change(client.ObjectKeyFromObject(before), func(r *remembered) { r.jobLater = tc.jobLater })
			got, needed := s.reconcileAfter(before, after)
			if !needed {
				got = never
			}
			if got != tc.want {
				t.Errorf("expected %s, but found %s", tc.want, got)
			}
		})
	}
}
