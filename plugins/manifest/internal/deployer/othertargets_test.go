package deployer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// abroad is another cluster. Its objects have the same names as those of the first one and other content.
type abroad struct {
	*world

	target *sdk.Target
}

// newAbroad starts a second API server, with a namespace of the same name as the test's.
func newAbroad(w *world) *abroad {
	w.Helper()
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		w.Fatalf("start a second API server: %v", err)
	}
	w.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			w.Errorf("stop the second API server: %v", err)
		}
	})
	admin, err := dynamic.NewForConfig(config)
	if err != nil {
		w.Fatal(err)
	}
	_, err = admin.Resource(namespaces).Create(w.Context(), &unstructured.Unstructured{Object: object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": w.Namespace},
	}}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	there := *w.Host
	there.World = &plugintest.World{TB: w.TB, Namespace: w.Namespace, Admin: admin, Requests: w.Requests}
	return &abroad{world: &world{&there}, target: w.Target("abroad", config)}
}

// TestOtherTargets: readiness checks and deletion groups look there as exports do; see packages readiness and remove.
func TestOtherTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := newAbroad(w)
	w.Call.Targets = map[string]*sdk.Target{"abroad": a.target}

	a.Create(configMaps, w.configMap("a", object{"where": "abroad"}))
	there := export("there", ".data.where", w.Namespace, "a")
	there["targetName"] = "abroad"
	own := export("own", ".data.where", w.Namespace, "a")
	own["targetName"] = w.Call.Target.Name
	item := w.item(with(config(w.configMap("a", object{"where": "here"})), "exports", []any{
		export("here", ".data.where", w.Namespace, "a"), there, own,
	}))
	want := object{"here": "here", "there": "abroad", "own": "here"}
	if diff := cmp.Diff(want, w.mustSucceed(item).Succeeded.Exports); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTargetThatLeadsToAnotherCluster: what is on the cluster before is neither forgotten nor made anew elsewhere.
func TestTargetThatLeadsToAnotherCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := newAbroad(w)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	here := w.Call.Target
	w.Call.Target = a.target
	for name, operation := range map[string]plugintest.Operation{"job": plugintest.Reconcile, "deletion": plugintest.Delete} {
		w.MustFail(w.Do(operation, item), plugintest.ConfigurationProblem, "TargetChanged", `Target "abroad"`, "lead to that cluster again",
			landscaper.DeleteWithoutUninstallAnnotation)
		if len(w.managed(item)) != 1 || a.Get(configMaps, "a") != nil {
			t.Errorf("%s: found %v on the ledger, and on the other cluster %v", name, w.managed(item), a.Get(configMaps, "a"))
		}
	}
	w.Call.Target = here
	w.mustDelete(item)
	if w.Get(configMaps, "a") != nil {
		t.Error("expected the object to be deleted where it is")
	}
	// Nothing is managed any more.
	w.Call.Target = a.target
	w.mustSucceed(item)
	w.mustDelete(item)
}

// TestMissingTarget: another Target that does not exist is an error that names it and says whose field it is.
func TestMissingTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := export("x", ".data.x", w.Namespace, "a")
	elsewhere["targetName"] = "nowhere"
	checks := w.check(object{"jsonPath": ".data", "operator": "exists"}, "a")
	checks["custom"].([]any)[0].(object)["targetName"] = "nowhere"
	for name, c := range map[string]struct {
		reason, field string
		value         any
		want          string
	}{
		"export": {reason: "the export is named", field: "exports", value: []any{elsewhere}, want: `export "x"`},
		"check":  {reason: "the check is named", field: "readinessChecks", value: checks, want: `readiness check "check"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			result := w.Do(plugintest.Reconcile, w.itemOf(name, with(config(w.configMap(name, nil)), c.field, c.value)))
			w.MustFail(result, plugintest.ConfigurationProblem, c.want, "NoTargetFound", "/nowhere")
			if t.Failed() {
				t.Log(c.reason)
			}
		})
	}
	t.Run("group", func(t *testing.T) {
		w := w.in(t)
		group := deleteAll(customGroup("configmaps", nil))
		group["customResourceGroup"].(object)["targetName"] = "nowhere"
		item := w.itemOf("group", with(config(w.configMap("group", nil)), "deletionGroups", groups(group)))
		w.mustSucceed(item)
		w.MustFail(w.Do(plugintest.Delete, item), plugintest.ConfigurationProblem, "deletionGroups[0].customResourceGroup.targetName", "NoTargetFound", "/nowhere")
		if w.Get(configMaps, "group") == nil {
			t.Error("an object was deleted that no group takes")
		}
	})
}
