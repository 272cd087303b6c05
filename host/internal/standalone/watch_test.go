package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func newMetadata() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	return meta
}

// TestOneLookPerJob: all that happens to an item within its pickup timeout costs one look, and an item at rest none.
// The timeouts come by themselves, without any event.
func TestOneLookPerJob(t *testing.T) {
	a := newServerAPI(t)
	const busyType v1alpha1.DeployItemType = "test.pergola.dev/busy"
	ofType := func(i *v1alpha1.DeployItem) { i.Spec.Type = busyType }
	item := a.newDeployItem(ofType)
	watched, looks := client.ObjectKeyFromObject(item), make(chan struct{}, 100)
	testenv.StartManager(t, a.config, manager.Options{}, func(m manager.Manager) error {
		serves := func(itemType v1alpha1.DeployItemType) bool { return itemType == busyType }
		options := Options{PickupTimeout: time.Second, ProgressingTimeout: time.Second}
		s, err := Setup(m, serves, newMetadata, slog.New(slog.DiscardHandler), options)
		if err != nil {
			return err
		}
		s.live = interceptor.NewClient(a.admin, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if key == watched {
					looks <- struct{}{}
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		return nil
	})
	waitFor := func(item *v1alpha1.DeployItem, what string, so func(*v1alpha1.DeployItemStatus) bool) *v1alpha1.DeployItemStatus {
		await.That(t, 30*time.Second, "an item that "+what, func() bool {
			return a.admin.Get(t.Context(), client.ObjectKeyFromObject(item), item) == nil && so(&item.Status)
		})
		return &item.Status
	}
	jobID := waitFor(item, "has a job", func(s *v1alpha1.DeployItemStatus) bool { return s.JobID != "" }).JobID
	<-looks

	at := time.Now().UTC().Format(time.RFC3339)
	a.patchStatus(item, fmt.Sprintf(`{"phase":"Init","observedGeneration":1,"lastReconcileTime":%q,"transitionTimes":{"initTime":%[1]q}}`, at))
	a.patchStatus(item, `{"phase":"Progressing"}`)
	a.patchStatus(item, fmt.Sprintf(`{"phase":"Succeeded","jobIDFinished":%q}`, jobID))

	// What must not happen has no event to wait for: twice another item comes to the end of the same time.
	for range 2 {
		waitFor(a.newDeployItem(ofType), "has ended", func(s *v1alpha1.DeployItemStatus) bool {
			return s.LastError != nil && s.LastError.Reason == "PickupTimeout"
		})
	}
	if len(looks) != 1 {
		t.Errorf("expected one look, but found %d", len(looks))
	}
}

func TestReconcileAfter(t *testing.T) {
	meta := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		m := newMetadata()
		m.Namespace, m.Name, m.Generation, m.ResourceVersion = "ns", "item", 1, "1"
		m.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(testType)}
		if change != nil {
			change(m)
		}
		return m
	}
	written := func(m *metav1.PartialObjectMetadata) { m.ResourceVersion = "2" }
	const never time.Duration = -1
	cases := map[string]struct {
		reason  string
		after   func(*metav1.PartialObjectMetadata)
		patient bool
		none    bool
		want    time.Duration
	}{
		"status":              {reason: "it may be a new job of somebody else", after: written, want: 5*time.Minute + grain},
		"status, no timeouts": {reason: "jobs come and go without us", after: written, none: true, want: never},
		"status, patient":     {reason: "it may be the end of the job under way", after: written, patient: true, want: 0},
		"nothing":             {reason: "the cache says the same once more", want: never},
		"spec":                {reason: "needs a job", after: func(m *metav1.PartialObjectMetadata) { m.Generation++ }, want: 0},
		"annotations lost":    {reason: "they are put back", after: func(m *metav1.PartialObjectMetadata) { m.Annotations = nil }, want: 0},
		"foreign type, asked": {
			reason: "who asks is to know that nobody hears it", want: 0,
			after: func(m *metav1.PartialObjectMetadata) {
				written(m)
				m.Annotations[v1alpha1.DeployerTypeAnnotation] = "test.pergola.dev/other"
				m.Annotations[v1alpha1.OperationAnnotation] = v1alpha1.OperationReconcile
			},
		},
		"foreign type": {
			reason: "no business of ours", want: never,
			after: func(m *metav1.PartialObjectMetadata) {
				written(m)
				m.Annotations[v1alpha1.DeployerTypeAnnotation] = "test.pergola.dev/other"
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &Setter{serves: func(itemType v1alpha1.DeployItemType) bool { return itemType == testType }, options: allTimeouts, memory: newMemory()}
			if tc.none {
				s.options = Options{}
			}
			s.memory.setPatient(client.ObjectKey{Namespace: "ns", Name: "item"}, tc.patient)
			got, look := s.reconcileAfter(meta(nil), meta(tc.after))
			if !look {
				got = never
			}
			if got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}

func TestGoneIsForgotten(t *testing.T) {
	s := &Setter{memory: newMemory()}
	item := waitingItem()
	s.memory.see(item, now)
	s.memory.setPatient(client.ObjectKeyFromObject(item), true)
	s.memory.judge(item, true)
	meta := newMetadata()
	meta.Namespace, meta.Name = item.Namespace, item.Name
	s.changes().Delete(t.Context(), event.TypedDeleteEvent[*metav1.PartialObjectMetadata]{Object: meta}, nil)
	if len(s.memory.items) != 0 {
		t.Errorf("an item that is gone is remembered: %+v", s.memory)
	}
}
