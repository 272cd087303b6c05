package standalone

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// TestOneReadPerJob: all that happens to an item within its pickup timeout costs one read, and an idle item none. The
// timeouts come by themselves, without any event.
func TestOneReadPerJob(t *testing.T) {
	plane, admin := testenv.ForTest(t)
	b := &bench{t: t, admin: admin}
	const busyType v1alpha1.DeployItemType = "test.pergola.dev/busy"
	ofType := func(i *v1alpha1.DeployItem) { i.Spec.Type = busyType }
	b.item = b.newDeployItem(ofType)
	watched, reads := client.ObjectKeyFromObject(b.item), make(chan struct{}, 100)
	testenv.StartManager(t, plane.Config, manager.Options{}, func(m manager.Manager) error {
		serves := func(itemType v1alpha1.DeployItemType) bool { return itemType == busyType }
		options := Options{
			PickupTimeout: time.Second, ProgressingTimeout: time.Second,
			Elected:  func(v1alpha1.DeployItemType) bool { return true },
			Unserved: func(v1alpha1.DeployItemType) string { return "" },
		}
		s, err := Setup(m, serves, newMetadata, slog.New(slog.DiscardHandler), options)
		if err != nil {
			return err
		}
		s.live = onGet(admin, func(key client.ObjectKey) {
			if key == watched {
				reads <- struct{}{}
			}
		})
		return m.Add(manager.RunnableFunc(s.SurveyEnded))
	})
	waitFor := func(item *v1alpha1.DeployItem, what string, so func(v1alpha1.DeployItemStatus) bool) {
		await.That(t, 30*time.Second, "an item that "+what, func() bool {
			return admin.Get(t.Context(), client.ObjectKeyFromObject(item), item) == nil && so(item.Status)
		})
	}
	waitFor(b.item, "has a job", func(s v1alpha1.DeployItemStatus) bool { return s.JobID != "" })
	<-reads

	at := time.Now().UTC().Format(time.RFC3339)
	b.patchStatus(fmt.Sprintf(
		`{"phase":"Init","observedGeneration":1,"lastReconcileTime":%q,"transitionTimes":{"initTime":%[1]q}}`, at))
	b.patchStatus(`{"phase":"Progressing"}`)
	b.patchStatus(fmt.Sprintf(`{"phase":"Succeeded","jobIDFinished":%q}`, b.item.Status.JobID))

	// What must not happen has no event to wait for: twice another item comes to the end of the same time.
	for range 2 {
		waitFor(b.newDeployItem(ofType), "has ended", func(s v1alpha1.DeployItemStatus) bool {
			return s.LastError != nil && s.LastError.Reason == "PickupTimeout"
		})
	}
	if len(reads) != 1 {
		t.Errorf("expected one read, but found %d", len(reads))
	}
}

func TestReconcileAfter(t *testing.T) {
	meta := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		m := newMetadata()
		m.Namespace, m.Name, m.Generation, m.ResourceVersion = "ns", "item", 1, "1"
		m.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(testType)}
		change(m)
		return m
	}
	nothing := func(*metav1.PartialObjectMetadata) {}
	written := func(m *metav1.PartialObjectMetadata) { m.ResourceVersion = "2" }
	foreign := func(m *metav1.PartialObjectMetadata) {
		written(m)
		m.Annotations[v1alpha1.DeployerTypeAnnotation] = "test.pergola.dev/other"
	}
	asked := func(m *metav1.PartialObjectMetadata) {
		foreign(m)
		m.Annotations[v1alpha1.OperationAnnotation] = v1alpha1.OperationReconcile
	}
	const never time.Duration = -1
	for name, tc := range map[string]struct {
		reason   string
		change   func(*metav1.PartialObjectMetadata)
		jobLater bool
		options  Options
		want     time.Duration
	}{
		"status":              {"it may be a new job of somebody else", written, false, allTimeouts, allTimeouts.pickup()},
		"status, no timeouts": {"jobs come and go without us", written, false, Options{}, never},
		"status, job later":   {"it may be the end of the job under way", written, true, allTimeouts, 0},
		"nothing":             {"the cache says the same once more", nothing, false, allTimeouts, never},
		"spec": {
			"it needs a job", func(m *metav1.PartialObjectMetadata) { m.Generation++ }, false, allTimeouts, 0,
		},
		"annotations lost": {
			"they are put back", func(m *metav1.PartialObjectMetadata) { m.Annotations = nil }, false, allTimeouts, 0,
		},
		"foreign type":        {"no business of ours", foreign, false, allTimeouts, never},
		"foreign type, asked": {"who asks is to know that nobody hears it", asked, false, allTimeouts, 0},
	} {
		t.Run(name, func(t *testing.T) {
			serves := func(itemType v1alpha1.DeployItemType) bool { return itemType == testType }
			s := &Setter{serves: serves, options: tc.options, memory: newMemory()}
			s.memory.setJobLater(client.ObjectKey{Namespace: "ns", Name: "item"}, tc.jobLater)
			got, needed := s.reconcileAfter(meta(nothing), meta(tc.change))
			if !needed {
				got = never
			}
			if got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}
