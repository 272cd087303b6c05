package deployer_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// entry is an entry of the manifests: an object, and how to deal with it.
func entry(manifest, settings object) object { return with(settings, "manifest", manifest) }

// configOf returns a configuration with the entries.
func configOf(entries ...object) object {
	list := make([]any, 0, len(entries))
	for _, e := range entries {
		list = append(list, e)
	}
	return with(config(), "manifests", list)
}

// itemOf returns a deploy item with a name of its own.
func (w *world) itemOf(name string, config object) *landscaper.DeployItem {
	item := w.item(config)
	item.Name = name
	return item
}

// create creates an object behind the deployer's back.
func (w *world) create(resource schema.GroupVersionResource, o object) *unstructured.Unstructured {
	w.Helper()
	created, err := w.objects(resource).Create(w.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		w.Fatalf("create a %s: %v", o["kind"], err)
	}
	return created
}

// destroy deletes an object behind the deployer's back.
func (w *world) destroy(resource schema.GroupVersionResource, name string) {
	w.Helper()
	if err := w.objects(resource).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatalf("delete %s %s: %v", resource.Resource, name, err)
	}
}

// data returns that of a ConfigMap; nil if there is none.
func (w *world) data(name string) any {
	w.Helper()
	if o := w.get(configMaps, name); o != nil {
		return o.Object["data"]
	}
	return nil
}

// startJob begins a new job of an item, as the host does.
func startJob(item *landscaper.DeployItem) {
	item.Status.JobID += "+"
	item.Status.Phase = landscaper.DeployItemPhaseInit
}

// call calls the deployer once and leaves in the item what the host would: the provider status, the conditions and the phase.
func (w *world) call(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	result := w.reconcile(item)
	keepConditions(item, result.Conditions)
	item.Status.Phase = landscaper.DeployItemPhaseProgressing
	return result
}

func keepConditions(item *landscaper.DeployItem, reported []sdk.Condition) {
	for _, c := range reported {
		conditions := slices.DeleteFunc(item.Status.Conditions, func(old landscaper.Condition) bool { return old.Type == c.Type })
		conditions = append(conditions, landscaper.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		item.Status.Conditions = conditions
	}
}

// mustDelete calls the deployer until the item is deleted. Nothing may be left on the ledger then.
func (w *world) mustDelete(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	result := w.plugin.DeleteUntilDone(w.Context(), sdktest.Call{DeployItem: item, Target: w.target})
	keepStatus(item, result)
	if result.Succeeded == nil {
		w.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if left := w.ledger(item); len(left) > 0 {
		w.Errorf("expected nothing to be managed any more, but found %v", left)
	}
	return result
}

// writes returns the requests since the last look at them that may have changed something.
func (w *world) writes() []string {
	return slices.DeleteFunc(w.requests.take(), func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

// mustTell expects exactly these events, each beginning as given.
func (w *world) mustTell(result *sdktest.Result, want ...string) {
	w.Helper()
	got := eventsOf(result)
	if len(got) != len(want) {
		w.Fatalf("expected the events %q, but found %q", want, got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			w.Errorf("expected the event %q, but found %q", want[i], got[i])
		}
	}
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	sub := *w
	sub.T = t
	return &sub
}

// ledger is managed for an item that may have no provider status.
func (w *world) ledger(item *landscaper.DeployItem) []string {
	w.Helper()
	if item.Status.ProviderStatus == nil {
		return nil
	}
	return w.managed(item)
}
