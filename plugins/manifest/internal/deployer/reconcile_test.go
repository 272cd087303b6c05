package deployer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sdktest.Conform(t, w.Plugin, sdktest.Case{
		Name: "ConfigMap",
		Call: sdktest.Call{DeployItem: w.item(config(w.ConfigMap("conform", object{"a": "b"}))), Target: w.Call.Target},
	})
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	want := sdktest.Capabilities{
		SeparateDocuments: true, WatchItems: true,
		Render: true, Diff: true, Validate: true, Configure: true, Watch: true, LatePickUp: true, CheckHealth: true,
		HookTypes: []string{string(hook.ShouldReconcile)},
	}
	if diff := cmp.Diff(want, newWorld(t).Plugin.Info().Capabilities); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestBadConfiguration: a job with a bad configuration fails without a request, and the other calls tell the same.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(with(config(w.ConfigMap("a", nil)), "updateStrategy", "replace"))
	const problem = `Unsupported value: "replace": supported values: ` +
		`"update", "patch", "merge", "mergeOverwrite", "apply"`
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem, "spec.config: updateStrategy: "+problem)
	_, err := w.Plugin.Render(t.Context(), sdktest.Call{DeployItem: item})
	if err == nil || !strings.Contains(err.Error(), "spec.config: updateStrategy: "+problem) {
		t.Errorf("expected the error of the job, but found %v", err)
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request for a bad configuration, but found %v", got)
	}
	problems, err := w.Plugin.Validate(t.Context(), sdktest.Call{DeployItem: item})
	if diff := cmp.Diff([]sdk.Problem{{Field: "updateStrategy", Message: problem}}, problems); diff != "" || err != nil {
		t.Errorf("error %v, problems: -want +got:\n%s", err, diff)
	}
}

// TestKindThatComesLater has the kind defined by another deploy item after a call that did not find it: a retry does.
func TestKindThatComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.custom("Latecomer", "l")))
	w.MustFail(w.Do(plugintest.Reconcile, item), nil, "UnknownKind", "serves no kind Latecomer")
	w.mustSucceed(w.Item(item.Spec.Type, "definition", config(w.crd("Latecomer"))))
	w.Eventually("a retry to succeed, once the API server serves the kind", func() bool {
		return w.Do(plugintest.Reconcile, item).Succeeded != nil
	})
}

// TestSteps: the progress of a job tells what it does, one step after the other. A look that finds everything applied
// says nothing of it: what is waited for is to be seen.
func TestSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.ConfigMap("orphan", nil)))
	w.mustSucceed(item)
	w.SetConfig(item, with(config(w.Deployment("web", 1)), "exports", []any{object{
		"key": "x", "jsonPath": ".data.x",
		"fromResource": object{"apiVersion": "v1", "kind": "ConfigMap", "name": "later", "namespace": w.Namespace},
	}}))
	var steps []string
	note := func() {
		t.Helper()
		result := w.Do(plugintest.Reconcile, item)
		for _, m := range result.Messages {
			if m.Progress != nil {
				steps = append(steps, m.Progress.Step)
			}
		}
		last := result.Messages[len(result.Messages)-1].Progress
		waiting := result.InProgress
		if waiting == nil || waiting.PollAfter <= 0 || last == nil || last.Message != "waiting for "+waiting.WaitingFor {
			t.Errorf("expected a poll hint, and the last progress to tell what is waited for, but found: %s", result)
		}
	}
	note()
	note()
	w.Ready("web")
	note()
	want := []string{"Apply", "CleanUp", "Readiness", "Export"}
	if diff := cmp.Diff(want, slices.Compact(steps)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEmptyAnnotationsAreSavedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(configOf(entry(w.ConfigMap("a", nil), object{"annotateBeforeDelete": object{}})))
	w.mustSucceed(item)
	w.Requests.Take()
	result := w.Do(plugintest.Reconcile, item)
	if slices.Contains(w.Requests.Steps(), plugintest.StepSave) {
		t.Errorf("saved %s", result.ProviderStatus)
	}
}

// TestTooManyObjectsForAnItem: a list of objects that the item could hold before they exist, but not with their UIDs,
// is refused before one of them is created.
// Rule (manifest.md#managed-resources): Nothing is created without a place in the inventory.
func TestTooManyObjectsForAnItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var manifests []object
	for n := range 5000 {
		manifests = append(manifests, w.ConfigMap(fmt.Sprintf("c-%04d", n), nil))
	}
	result := w.Do(plugintest.Reconcile, w.item(config(manifests...)))
	w.MustFail(result, []landscaper.ErrorCode{landscaper.ErrorNoRetry}, sdk.ReasonItemTooLarge)
	if created := w.Names(configMaps, owner.Label); len(created) > 0 {
		t.Errorf("%d objects were created", len(created))
	}
}

func TestConcurrentItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var jobs sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		jobs.Go(func() {
			item := w.Item(v1alpha2.Type, name, config(w.ConfigMap(name, nil), w.ConfigMap(name+"-more", nil),
				w.custom("Gadget"+name, name), w.crd("Gadget"+name)))
			for _, do := range []plugintest.Operation{plugintest.Reconcile, plugintest.Delete} {
				if result := w.UntilDone(do, item); result.Succeeded == nil {
					t.Errorf("item %s: expected success, but found: %s", name, result)
					return
				}
			}
		})
	}
	jobs.Wait()
}

// TestDeleteAllResourcesSparesWhatIsWanted, although another Target leads to the same cluster.
func TestDeleteAllResourcesSparesWhatIsWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.ConfigMap("wanted", nil), w.ConfigMap("goes", nil)))
	w.mustSucceed(item)
	w.SetConfig(item, with(config(w.ConfigMap("wanted", nil)), "deletionGroupsDuringUpdate", []object{
		{"customResourceGroup": object{
			"targetName": "alias", "deleteAllResources": true,
			"resources": []object{{"apiVersion": "v1", "kind": "ConfigMap", "namespaces": []string{w.Namespace}}},
		}},
		{"predefinedResourceGroup": object{"type": "namespaced-resources"}},
	}))
	alias := *w.Call.Target
	alias.Name, alias.Content = "alias", []byte(strings.ReplaceAll(string(alias.Content), "test", "best"))
	w.Call.Targets = map[string]*sdk.Target{"alias": &alias}
	w.mustSucceed(item)
	if w.Get(configMaps, "wanted") == nil || w.Get(configMaps, "goes") != nil {
		t.Error("expected that what the item wants stays, and only that")
	}
}

// TestSchedules: what a schedule makes of the time since the last job is shown in package providerconfig.
// Rule (manifest.md#drift): The manifest deployer has schedules.
func TestSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hourAgo := landscaper.NewTime(time.Now().Add(-time.Hour))
	for every, due := range map[string]bool{"30m": true, "1000h": false} {
		item := w.item(with(config(), "continuousReconcile", object{"every": every}))
		item.Status.JobIDFinished, item.Status.LastReconcileTime = item.Status.JobID, &hourAgo
		outcomes, err := w.Plugin.RunHooks(t.Context(), hook.ShouldReconcile, item, nil)
		if err != nil || len(outcomes) != 1 || outcomes[0].Err != nil || outcomes[0].Result == nil ||
			(*outcomes[0].Result == hook.Result{}) != due {
			t.Errorf("every %s: expected a job to be due: %t, but found %+v, %v", every, due, outcomes, err)
		}
	}
}

// TestSavedBeforeCreated lets the provider status be refused. TestCrashAtEachStep shows the rest.
// Rule (architecture.md#what-always-holds): 6. What a plugin reports as managed is in the provider status before the
// plugin continues.
func TestSavedBeforeCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refused := w.CallOf(w.item(config(w.ConfigMap("a", nil), w.ConfigMap("b", nil))))
	refused.OnSave = func(json.RawMessage) error { return plugintest.ErrStruck }
	if result := w.Plugin.Reconcile(t.Context(), refused); result.Failed == nil {
		t.Fatalf("expected a failure, but found: %s", result)
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request to the target before the provider status is saved, but found %v", got)
	}
}

// TestOlderManifestAfterACrash goes back to an older manifest after a newer one was written but never noted.
func TestOlderManifestAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	older := config(w.ConfigMap("a", object{"x": "1"}))
	item := w.item(older)
	w.mustSucceed(item)
	w.SetConfig(item, config(w.ConfigMap("a", object{"x": "1", "y": "2"})))
	const result = 3 // after the status is saved and the object is written
	w.Disturb(plugintest.Reconcile, item, result, plugintest.Killed)
	if diff := cmp.Diff(any(object{"x": "1", "y": "2"}), w.MustGet(configMaps, "a").Object["data"]); diff != "" {
		t.Fatalf("until the plugin was killed: -want +got:\n%s", diff)
	}
	w.SetConfig(item, older)
	w.mustSucceed(item)
	if diff := cmp.Diff(any(object{"x": "1"}), w.MustGet(configMaps, "a").Object["data"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
