package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func newMetadata() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	return meta
}

// startManager starts a manager with a Setter, and ends it with the test.
func (a *api) startManager(serves func(v1alpha1.DeployItemType) bool, options Options, prepare ...func(*Setter)) *Setter {
	a.t.Helper()
	scheme, err := testenv.Scheme()
	if err != nil {
		a.t.Fatal(err)
	}
	sameNames := true
	mgr, err := manager.New(a.config, manager.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &sameNames},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	setter, err := Setup(mgr, serves, newMetadata, slog.New(slog.DiscardHandler), options)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, p := range prepare {
		p(setter)
	}
	ctx, stop := context.WithCancel(a.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	a.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			a.t.Error(err)
		}
	})
	return setter
}

// waitFor waits until an item has a status that meets a condition, and returns it.
func (a *api) waitFor(item *v1alpha1.DeployItem, what string, condition func(*v1alpha1.DeployItemStatus) bool) *v1alpha1.DeployItem {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 30*time.Second)
	defer cancel()
	watch, err := a.admin.Watch(ctx, &v1alpha1.DeployItemList{}, client.InNamespace(item.Namespace))
	if err != nil {
		a.t.Fatal(err)
	}
	defer watch.Stop()
	var seen *v1alpha1.DeployItem
	for change := range watch.ResultChan() {
		if found, ok := change.Object.(*v1alpha1.DeployItem); ok {
			if seen = found; condition(&seen.Status) {
				return seen
			}
		}
	}
	a.t.Fatalf("expected the item to be %s, but found %+v", what, seen)
	return nil
}

func TestServedLater(t *testing.T) {
	a := newServerAPI(t)
	const laterType v1alpha1.DeployItemType = "test.pergola.dev/later"
	var served atomic.Bool
	asked := make(chan struct{}, 100)
	item := a.newDeployItem(func(i *v1alpha1.DeployItem) { i.Spec.Type = laterType })
	setter := a.startManager(func(itemType v1alpha1.DeployItemType) bool {
		if itemType == laterType {
			asked <- struct{}{}
		}
		return itemType == laterType && served.Load()
	}, Options{})
	<-asked // the item was looked at, and nobody serves it

	served.Store(true)
	setter.Served([]v1alpha1.DeployItemType{laterType})
	a.waitFor(item, "given a job", func(s *v1alpha1.DeployItemStatus) bool { return s.JobID != "" })
}

// TestLooksAgain: the timeouts come by themselves, for jobs of the setter and of others, without any event.
func TestLooksAgain(t *testing.T) {
	a := newServerAPI(t)
	const waitType v1alpha1.DeployItemType = "test.pergola.dev/wait"
	atRest := make(chan string, 100) // the finished jobs that the setter has had a look at
	a.startManager(func(itemType v1alpha1.DeployItemType) bool { return itemType == waitType },
		Options{PickupTimeout: time.Second, ProgressingTimeout: time.Second}, func(s *Setter) {
			s.live = interceptor.NewClient(a.admin, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					err := c.Get(ctx, key, obj, opts...)
					if item, ok := obj.(*v1alpha1.DeployItem); ok && item.Spec.Type == waitType && item.Status.JobID == item.Status.JobIDFinished {
						atRest <- item.Status.JobID
					}
					return err
				},
			})
		})
	item := a.newDeployItem(func(i *v1alpha1.DeployItem) {
		i.Spec.Type, i.Spec.Timeout = waitType, "1s"
	})
	finished := func(jobID, reason string) func(s *v1alpha1.DeployItemStatus) bool {
		return func(s *v1alpha1.DeployItemStatus) bool {
			return (s.JobIDFinished == jobID || jobID == "" && s.JobIDFinished != "") && s.LastError != nil && s.LastError.Reason == reason
		}
	}
	own := a.waitFor(item, "ended: own job, not picked up", finished("", "PickupTimeout")).Status.JobID

	awaitRest := func(jobID string) { // until the look after that job, so that there is none to come
		for <-atRest != jobID {
			continue
		}
	}
	awaitRest(own)
	at := time.Now().UTC().Format(time.RFC3339)
	a.patchStatus(item, fmt.Sprintf(`{"jobID":"x","jobIDGenerationTime":%q,"transitionTimes":{"initTime":null}}`, at))
	a.waitFor(item, "ended: foreign job, not picked up", finished("x", "PickupTimeout"))

	awaitRest("x")
	at = time.Now().UTC().Format(time.RFC3339)
	// At once: a second later nobody would have picked it up.
	a.patchStatus(item, fmt.Sprintf(
		`{"jobID":"y","jobIDGenerationTime":%q,"phase":"Progressing","lastReconcileTime":%[1]q,"transitionTimes":{"initTime":%[1]q},
			"conditions":[{"type":"PickedUp","status":"True","reason":"PickedUp","message":"y","lastTransitionTime":%[1]q,"lastUpdateTime":%[1]q}]}`, at))
	a.waitFor(item, "ended: picked up, deployer dead", finished("y", "ProgressingTimeout"))
}

// TestOneLookPerJob: all that happens to an item within its pickup timeout costs one look, and an item at rest none.
func TestOneLookPerJob(t *testing.T) {
	a := newServerAPI(t)
	const busyType v1alpha1.DeployItemType = "test.pergola.dev/busy"
	options := Options{PickupTimeout: time.Second, ProgressingTimeout: time.Second}
	var item *v1alpha1.DeployItem
	looks := make(chan struct{}, 100)
	created := make(chan struct{})
	a.startManager(func(itemType v1alpha1.DeployItemType) bool { return itemType == busyType }, options, func(s *Setter) {
		s.live = interceptor.NewClient(a.admin, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				<-created
				if key == client.ObjectKeyFromObject(item) {
					looks <- struct{}{}
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
	})
	item = a.newDeployItem(func(i *v1alpha1.DeployItem) { i.Spec.Type = busyType })
	close(created)
	jobID := a.waitFor(item, "given a job", func(s *v1alpha1.DeployItemStatus) bool { return s.JobID != "" }).Status.JobID
	<-looks

	at := time.Now().UTC().Format(time.RFC3339)
	a.patchStatus(item, fmt.Sprintf(`{"phase":"Init","observedGeneration":1,"lastReconcileTime":%q,"transitionTimes":{"initTime":%[1]q}}`, at))
	a.patchStatus(item, `{"phase":"Progressing"}`)
	a.patchStatus(item, fmt.Sprintf(`{"phase":"Succeeded","jobIDFinished":%q}`, jobID))

	// What must not happen has no event to wait for: twice another item comes to the end of the same time.
	for range 2 {
		later := a.newDeployItem(func(i *v1alpha1.DeployItem) { i.Spec.Type = busyType })
		a.waitFor(later, "ended", func(s *v1alpha1.DeployItemStatus) bool {
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
