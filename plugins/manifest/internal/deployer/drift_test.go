package deployer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// driftIn returns what the provider status says of drift; nil for nothing.
func driftIn(t *testing.T, item *landscaper.DeployItem) *managedresource.Drift {
	t.Helper()
	var status v1alpha2.ProviderStatus
	if err := json.Unmarshal(item.Status.ProviderStatus.Raw, &status); err != nil {
		t.Fatal(err)
	}
	return status.Drift
}

// mustReport expects a condition Drifted whose message has all the parts.
func (w *world) mustReport(result *sdktest.Result, status landscaper.ConditionStatus, parts ...string) {
	w.Helper()
	if len(result.Conditions) != 1 || result.Conditions[0].Type != managedresource.ConditionDrifted || result.Conditions[0].Status != status {
		w.Fatalf("expected the condition Drifted to be %s, but found %v", status, result.Conditions)
	}
	for _, part := range parts {
		if !strings.Contains(result.Conditions[0].Message, part) {
			w.Errorf("expected the condition to tell %q, but found %q", part, result.Conditions[0].Message)
		}
	}
}

// TestDrift follows the condition and the provider status over the calls of several jobs.
// Rule (manifest.md#drift): Objects deleted or changed on the target are restored, and reported.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("changed", object{"a": "1", "b": "2"}), w.configMap("deleted", nil), w.deployment("web", "nginx")))
	w.mustWait(w.Do(plugintest.Reconcile, item), "web")
	w.ready("web")
	plugintest.NewJob(item)
	if got := w.call(item); len(got.Conditions) > 0 {
		t.Fatalf("an item that has not drifted has the condition %v", got.Conditions)
	}

	w.Patch(configMaps, "changed", `{"data":{"a":"9","theirs":"x"}}`)
	w.Delete(configMaps, "deleted")
	w.Patch(deployments, "web", `{"status":{"readyReplicas":0,"availableReplicas":0}}`, "status")
	plugintest.NewJob(item)
	parts := []string{"ConfigMap " + w.Namespace + "/changed: data.a", "ConfigMap " + w.Namespace + "/deleted was missing"}
	first := w.call(item)
	w.mustWait(first, "web")
	w.mustReport(first, landscaper.ConditionTrue, parts...)
	w.mustTell(first, "Repaired: repaired what had changed on the target: "+parts[0]+"; "+parts[1])
	want := &managedresource.Drift{JobID: item.Status.JobID, Objects: []managedresource.DriftedObject{
		{Resource: managedresource.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: w.Namespace, Name: "changed"}, Fields: []string{"data.a"}},
		{Resource: managedresource.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: w.Namespace, Name: "deleted"}, Missing: true},
	}}
	if diff := cmp.Diff(want, driftIn(t, item)); diff != "" {
		t.Errorf("provider status: -want +got:\n%s", diff)
	}
	// The plugin was started again in between; what was found is not forgotten.
	w.Restart()
	w.ready("web")
	last := w.call(item)
	if last.Succeeded == nil {
		t.Fatalf("expected success, but found: %s", last)
	}
	w.mustReport(last, landscaper.ConditionTrue, parts...)
	w.mustTell(last)
	if diff := cmp.Diff(want, driftIn(t, item)); diff != "" {
		t.Errorf("provider status at the end: -want +got:\n%s", diff)
	}

	// Each job tells what it has found itself.
	w.Patch(configMaps, "changed", `{"data":{"b":"9"}}`)
	plugintest.NewJob(item)
	w.mustReport(w.call(item), landscaper.ConditionTrue, "/changed: data.b")
	want.JobID, want.Objects = item.Status.JobID, want.Objects[:1]
	want.Objects[0].Fields = []string{"data.b"}
	if diff := cmp.Diff(want, driftIn(t, item)); diff != "" {
		t.Errorf("provider status of the next job: -want +got:\n%s", diff)
	}

	plugintest.NewJob(item)
	w.mustReport(w.call(item), landscaper.ConditionFalse)
	if got := driftIn(t, item); got != nil {
		t.Errorf("expected the provider status to tell no drift any more, but found %v", got)
	}
}

// TestDriftOfASecret names fields and never values, neither the old nor the new ones.
// Rule (manifest.md#drift): The condition `Drifted` names fields and never values.
func TestDriftOfASecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(object{
		"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "a", "namespace": w.Namespace}, "stringData": object{"password": "hunter2"},
	}))
	w.mustSucceed(item)
	w.Patch(secrets, "a", `{"data":{"password":"c3dvcmRmaXNo"}}`)
	plugintest.NewJob(item)
	result := w.call(item)
	w.mustReport(result, landscaper.ConditionTrue, "Secret "+w.Namespace+"/a: data.password")
	said := fmt.Sprint(result, result.Conditions, eventsOf(result)) + string(item.Status.ProviderStatus.Raw)
	for _, value := range []string{"aHVudGVyMg", "hunter2", "c3dvcmRmaXNo", "swordfish"} {
		if strings.Contains(said, value) {
			t.Errorf("a value of the Secret is told: %s", said)
		}
	}
}

// TestDriftOfAFailedJob: a drift that was repaired before the job failed is told beside its error.
// Rule (manifest.md#drift): A drift repaired by a failed job is reported beside its error.
func TestDriftOfAFailedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", object{"a": "1"})))
	w.mustSucceed(item)
	w.Patch(configMaps, "a", `{"data":{"a":"9"}}`)
	w.SetConfig(item, config(w.configMap("a", object{"a": "1"}), w.configMap("Bad_Name", nil)))
	plugintest.NewJob(item)
	result := w.call(item)
	w.MustFail(result, plugintest.ConfigurationProblem, "Bad_Name")
	w.mustReport(result, landscaper.ConditionTrue, "/a: data.a")
	if got := driftIn(t, item); got == nil || len(got.Objects) != 1 {
		t.Errorf("expected the provider status to tell it, too, but found %v", got)
	}
}

// TestUnknownFields: an operator who lets them pass has them told once per job, in a warning event.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Configure(object{"strict": false})
	item := w.item(with(configOf(entry(w.deployment("web", "nginx"), object{"polici": "keep"})), "upDateStrategy", "patch"))
	for range 2 {
		plugintest.NewJob(item)
		result := w.call(item)
		w.mustTell(result, "UnknownField: spec.config: passed over: ")
		if got := eventsOf(result)[0]; !strings.Contains(got, "manifests[0].polici") || !strings.Contains(got, "upDateStrategy") {
			t.Errorf("expected both fields to be named, but found %q", got)
		}
		if i := slices.IndexFunc(result.Messages, func(m sdktest.Message) bool { return m.Event != nil }); !result.Messages[i].Event.Warning {
			t.Error("expected a warning")
		}
		w.mustTell(w.call(item))
	}
	w.ready("web")
	w.MustSucceed(item)
}

// TestRefusedRepair: an item whose repair the target refuses has not failed, also after a refused change was taken back.
// Rule (manifest.md#drift): A repair is also refused without a failure after a refused change was taken back.
func TestRefusedRepair(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deployed := config(w.configMap("frozen", object{"key": "1"}))
	item := w.item(deployed)
	w.mustSucceed(item)
	w.Patch(configMaps, "frozen", `{"data":{"key":"2"},"immutable":true}`)
	refused := func() {
		plugintest.NewJob(item)
		result := w.mustSucceed(item)
		w.mustReport(result, landscaper.ConditionTrue, "refuses the repair", "frozen: data.key", "immutable")
		w.mustTell(result, "RepairRefused: the target refuses the repair")
	}
	refused()
	w.SetConfig(item, config(w.configMap("frozen", object{"key": "3"})))
	plugintest.NewJob(item)
	w.MustFail(w.Finish(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "immutable")
	w.SetConfig(item, deployed)
	refused()
}
