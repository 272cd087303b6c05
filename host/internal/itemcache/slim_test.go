package itemcache

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// history draws an item to which anything has happened that hosts, users and a Landscaper do to one.
func history(t *rapid.T) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "item", Generation: 1}}
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(rapid.SampledFrom(
		[]string{`{}`, `{"continuousReconcile":{"every":"1h"}}`}).Draw(t, "config"))}
	deployer := v1alpha1.DeployerInformation{Identity: "here", Name: "one"}
	deletion := func() bool { return item.DeletionTimestamp != nil }
	job := func(label string) string { return rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, label) }
	annotate := func(key, value string) { metav1.SetMetaDataAnnotation(&item.ObjectMeta, key, value) }
	t.Repeat(map[string]func(*rapid.T){
		"set job": func(t *rapid.T) {
			at := v1alpha1.NewTime(noon)
			item.Status.JobID, item.Status.JobIDGenerationTime = job("job"), &at
		},
		"finish elsewhere": func(t *rapid.T) { item.Status.JobIDFinished = job("finished") },
		"phase": func(t *rapid.T) {
			item.Status.Phase = rapid.SampledFrom([]v1alpha1.DeployItemPhase{
				"", v1alpha1.DeployItemPhaseProgressing, v1alpha1.DeployItemPhaseSucceeded, v1alpha1.DeployItemPhaseFailed,
				v1alpha1.DeployItemPhaseDeleteFailed,
			}).Draw(t, "phase")
		},
		"pick up": func(*rapid.T) { contract.Begin(item, deletion(), deployer, noon) },
		"queue":   func(*rapid.T) { contract.Enqueue("a worker")(item, deletion(), deployer, noon) },
		"fail": func(t *rapid.T) {
			reason := rapid.SampledFrom([]string{"Broken", contract.ReasonTargetNotFound}).Draw(t, "reason")
			contract.Fail(item, deletion(), contract.Error{Operation: contract.OperationResolve, Reason: reason}, noon)
		},
		"succeed":   func(*rapid.T) { contract.Succeed(item, noon) },
		"crash":     func(*rapid.T) { contract.NoteCrashes(item, 1, noon) },
		"unserved":  func(*rapid.T) { contract.SetUnserved(item, "no plugin", noon) },
		"delete":    func(*rapid.T) { item.DeletionTimestamp = &metav1.Time{Time: noon} },
		"finalizer": func(*rapid.T) { item.Finalizers = []string{v1alpha1.Finalizer} },
		"leave":     func(*rapid.T) { annotate(v1alpha1.DeleteWithoutUninstallAnnotation, "true") },
		"request": func(t *rapid.T) {
			annotate(v1alpha1.OperationAnnotation, rapid.SampledFrom(
				[]string{"reconcile", "force-reconcile", "abort", "dance"}).Draw(t, "operation"))
		},
		"accept": func(t *rapid.T) {
			if contract.Decide(item, noon).Action == contract.Accept {
				contract.AcceptOperation(item, job("accepted job"), time.Minute, noon)
			}
		},
		"set accepted job": func(*rapid.T) {
			if d := contract.Decide(item, noon); d.Action == contract.Start {
				contract.SetJob(item, d.JobID, noon)
			}
		},
	})
	return item
}

// TestDecisionsByTheCache: every decision about an item in the cache is that about the item in full.
func TestDecisionsByTheCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := history(t)
		slim := Slim(item)
		for _, now := range []time.Time{noon, noon.Add(time.Hour)} {
			if full, cached := contract.Decide(item, now), contract.Decide(slim, now); full != cached {
				t.Fatalf("expected %+v, but found %+v for %+v", full, cached, item.Status)
			}
		}
		if contract.FailedForMissingReference(item) != contract.FailedForMissingReference(slim) ||
			contract.Unserved(item) != contract.Unserved(slim) ||
			contract.UnknownOperation(item) != contract.UnknownOperation(slim) ||
			HasSchedule(item.Spec.Config) != HasSchedule(slim.Spec.Config) ||
			item.Status.ObservedGeneration != slim.Status.ObservedGeneration {
			t.Fatalf("expected the same answers of\n%+v\nand\n%+v", item, slim)
		}
	})
}

// Rule (deploy-items.md#moving): A change of the old Target starts a job of an item whose move has failed.
func TestMovingItem(t *testing.T) {
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "item"}}
	item.Spec.Target = &v1alpha1.ObjectReference{Name: "new"}
	item.Status.JobID = "1"
	contract.Begin(item, false, v1alpha1.DeployerInformation{}, noon)
	contract.Fail(item, false, contract.Error{Reason: "Refused", Terminal: true}, noon)
	item.Status.Conditions = append(item.Status.Conditions, v1alpha1.Condition{
		Type: move.Condition, Status: v1alpha1.ConditionTrue, Reason: string(move.Removing),
		Message: "the move from the Target old goes on",
	})
	keys, err := usedBy(Slim(item))
	want := []string{"Context/ns/default", "Target/ns/new", "Target/ns/old"}
	if diff := gocmp.Diff(want, keys); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestSlim: the cache keeps no large part of an idle item.
func TestSlim(t *testing.T) {
	created := metav1.NewTime(time.Unix(1, 0))
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "item", UID: "uid", ResourceVersion: "5", Generation: 7, CreationTimestamp: created,
		Annotations: map[string]string{
			v1alpha1.DeployerTypeAnnotation: "test", corev1.LastAppliedConfigAnnotation: "the whole item",
		},
		Labels: map[string]string{"a": "b"}, Finalizers: []string{v1alpha1.Finalizer, "another"},
	}}
	item.Spec = v1alpha1.DeployItemSpec{Type: "test", Config: &runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}}
	item.Status.JobID = "1"
	contract.Begin(item, false, v1alpha1.DeployerInformation{Identity: "here", Name: "one"}, noon)
	contract.Succeed(item, noon)
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"c":"d"}`)}
	want := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "item", UID: "uid", ResourceVersion: "5", Generation: 7, CreationTimestamp: created,
			Annotations: map[string]string{v1alpha1.DeployerTypeAnnotation: "test"}, Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.DeployItemSpec{Type: "test"},
		Status: v1alpha1.DeployItemStatus{
			Phase: v1alpha1.DeployItemPhaseSucceeded, ObservedGeneration: 7, JobID: "1", JobIDFinished: "1",
			Deployer: v1alpha1.DeployerInformation{Identity: "here"},
		},
	}
	if diff := gocmp.Diff(want, Slim(item)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
