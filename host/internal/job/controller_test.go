package job

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

func TestServedLater(t *testing.T) {
	const laterType v1alpha1.DeployItemType = "test.pergola.dev/later"
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := manager.New(controlPlane.Config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	var served atomic.Bool
	asked := make(chan struct{}, 100)
	setter, err := Setup(mgr, func(itemType v1alpha1.DeployItemType) bool {
		if itemType == laterType {
			asked <- struct{}{}
		}
		return itemType == laterType && served.Load()
	}, newMetadata, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	item := newDeployItem(t, func(i *v1alpha1.DeployItem) { i.Spec.Type = laterType })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-asked // the item was looked at, and nobody serves it

	served.Store(true)
	if err := setter.Served(ctx, []v1alpha1.DeployItemType{laterType}); err != nil {
		t.Fatal(err)
	}
	wait, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	watch, err := admin.Watch(wait, &v1alpha1.DeployItemList{}, client.InNamespace(item.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for change := range watch.ResultChan() {
		if seen, ok := change.Object.(*v1alpha1.DeployItem); ok && seen.Status.JobID != "" {
			return
		}
	}
	t.Error("an item whose type comes to be served gets no job")
}

func TestInteresting(t *testing.T) {
	meta := func(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		m := newMetadata()
		m.Namespace, m.Name, m.Generation = "ns", "item", 1
		m.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(testType)}
		if change != nil {
			change(m)
		}
		return m
	}
	operation := func(value string) func(*metav1.PartialObjectMetadata) {
		return func(m *metav1.PartialObjectMetadata) { m.Annotations[v1alpha1.OperationAnnotation] = value }
	}
	cases := map[string]struct {
		reason        string
		before, after func(*metav1.PartialObjectMetadata)
		patient       bool
		want          bool
	}{
		"status":            {reason: "jobs come and go without us"},
		"status, patient":   {reason: "it may be the end of the job under way", patient: true, want: true},
		"spec":              {reason: "needs a job", after: func(m *metav1.PartialObjectMetadata) { m.Generation++ }, want: true},
		"annotations lost":  {reason: "they are put back", after: func(m *metav1.PartialObjectMetadata) { m.Annotations = nil }, want: true},
		"operation":         {reason: "somebody asks", after: operation("reconcile"), want: true},
		"operation removed": {reason: "that was us", before: operation("reconcile")},
		"operation stays":   {reason: "it was seen before", before: operation("reconcile"), after: operation("reconcile")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.setPatient(client.ObjectKey{Namespace: "ns", Name: "item"}, tc.patient)
			got := b.interesting().UpdateFunc(event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: meta(tc.before), ObjectNew: meta(tc.after)})
			if got != tc.want {
				t.Errorf("%s: expected %t, but found %t", tc.reason, tc.want, got)
			}
			b.interesting().DeleteFunc(event.TypedDeleteEvent[*metav1.PartialObjectMetadata]{Object: meta(nil)})
			if len(b.patient) != 0 {
				t.Error("an item that is gone is remembered")
			}
		})
	}
}
