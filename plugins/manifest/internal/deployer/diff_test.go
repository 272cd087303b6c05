package deployer_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// diff returns the changes of the item's next job by the names of the objects. It fails if that changes anything in the
// test's namespace.
func (w *world) diff(item *landscaper.DeployItem) map[string]sdk.Change {
	w.Helper()
	before := w.versions()
	changes, err := w.Plugin.Diff(w.Context(), w.CallOf(item))
	if err != nil {
		w.Fatalf("diff: %v", err)
	}
	if diff := cmp.Diff(before, w.versions()); diff != "" {
		w.Errorf("the diff has changed something: -before +after:\n%s", diff)
	}
	byName := map[string]sdk.Change{}
	for _, c := range changes {
		if _, twice := byName[c.Object]; twice {
			w.Errorf("%s is there twice: %v", c.Object, changes)
		}
		byName[c.Object] = c
	}
	return byName
}

// versions returns the versions of the objects in the test's namespace, and those that are being deleted.
func (w *world) versions() map[string]string {
	w.Helper()
	versions := map[string]string{}
	for _, resource := range []string{"configmaps", "secrets", "services"} {
		list, err := w.Objects(configMaps.GroupVersion().WithResource(resource)).List(context.WithoutCancel(w.Context()), metav1.ListOptions{})
		if err != nil {
			w.Fatal(err)
		}
		for _, o := range list.Items {
			versions[o.GetKind()+" "+o.GetName()] = o.GetResourceVersion()
		}
	}
	return versions
}

// dataOf returns the data of a state of an object; nil if there is none.
func dataOf(t *testing.T, document json.RawMessage) any {
	t.Helper()
	if document == nil {
		return nil
	}
	var o object
	if err := json.Unmarshal(document, &o); err != nil {
		t.Fatal(err)
	}
	return o["data"]
}

// TestDiff has one object for each action, and then compares with what the job does.
func TestDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fixed := func(colour string) object {
		return with(w.configMap("recreated", object{"colour": colour}), "immutable", true)
	}
	kept := object{"policy": "keep"}
	item := w.item(configOf(
		entry(w.configMap("same", object{"a": "1"}), nil), entry(w.configMap("updated", object{"a": "1"}), nil),
		entry(w.configMap("deleted", object{"a": "1"}), nil), entry(w.configMap("kept", nil), kept),
		entry(fixed("red"), object{"recreate": true}),
	))
	w.mustSucceed(item)
	if got := w.diff(item); len(got) > 0 {
		t.Errorf("a job without a change: expected no changes, but found %v", got)
	}

	good := []object{
		entry(w.configMap("same", object{"a": "1"}), nil), entry(w.configMap("updated", object{"a": "1", "b": "2"}), nil),
		entry(w.configMap("created", object{"a": "1"}), nil), entry(fixed("green"), object{"recreate": true}),
	}
	bad := entry(w.configMap("Bad_Name", nil), nil)
	w.SetConfig(item, configOf(append(slices.Clone(good), bad)...))
	changes := w.diff(item)
	configMap := func(name string) string { return "ConfigMap " + w.Namespace + "/" + name }
	want := map[string]struct {
		action        sdk.Action
		before, after any
	}{
		configMap("updated"):   {sdk.ActionUpdate, object{"a": "1"}, object{"a": "1", "b": "2"}},
		configMap("created"):   {sdk.ActionCreate, nil, object{"a": "1"}},
		configMap("deleted"):   {sdk.ActionDelete, object{"a": "1"}, nil},
		configMap("kept"):      {sdk.ActionKeep, nil, nil},
		configMap("recreated"): {sdk.ActionRecreate, object{"colour": "red"}, object{"colour": "green"}},
		configMap("Bad_Name"):  {sdk.ActionFail, nil, nil},
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(changes))); diff != "" {
		t.Fatalf("objects: -want +got:\n%s", diff)
	}
	for name, w := range want {
		c := changes[name]
		if c.Action != w.action {
			t.Errorf("%s: expected %s, but found %s (%s)", name, w.action, c.Action, c.Note)
		}
		if diff := cmp.Diff([]any{w.before, w.after}, []any{dataOf(t, c.Before), dataOf(t, c.After)}); diff != "" {
			t.Errorf("%s: data before and after: -want +got:\n%s", name, diff)
		}
	}
	if note := changes[configMap("Bad_Name")].Note; !strings.Contains(note, "metadata.name") {
		t.Errorf("expected the note to say why the job would fail, but found %q", note)
	}

	w.SetConfig(item, configOf(good...))
	w.mustSucceed(item)
	for name, c := range want {
		_, short, _ := strings.Cut(name, "/")
		if c.after != nil {
			if diff := cmp.Diff(c.after, w.data(short)); diff != "" {
				t.Errorf("%s: the job has not done what the diff told: -want +got:\n%s", name, diff)
			}
		}
	}
	if got := w.diff(item); len(got) > 0 {
		t.Errorf("after the job: expected no changes, but found %v", got)
	}
}

// TestDiffOfASecret tells that a value would change, and no value.
// Rule (SECURITY.md#secrets): A difference of a Secret shows no values.
func TestDiffOfASecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := func(name, password string) object {
		return object{
			"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": name, "namespace": w.Namespace}, "stringData": object{"password": password},
		}
	}
	item := w.item(config(secret("updated", "hunter2"), secret("deleted", "hunter2")))
	w.mustSucceed(item)
	w.SetConfig(item, config(secret("updated", "swordfish"), secret("created", "swordfish"), secret("Bad_Name", "swordfish")))
	changes := w.diff(item)
	if len(changes) != 4 {
		t.Errorf("expected four changes, but found %v", changes)
	}
	for name, c := range changes {
		said := string(c.Before) + string(c.After) + c.Note
		for _, value := range []string{"aHVudGVyMg", "hunter2", "c3dvcmRmaXNo", "swordfish"} {
			if strings.Contains(said, value) {
				t.Errorf("%s: a value of the Secret is told: %s", name, said)
			}
		}
	}
	updated := changes["Secret "+w.Namespace+"/updated"]
	if before, after := dataOf(t, updated.Before), dataOf(t, updated.After); cmp.Equal(before, after) || before.(object)["password"] == nil {
		t.Errorf("expected to see that the password changes, but found %v and %v", before, after)
	}
}

func TestDiffOfAMistake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		reason, want string
		call         sdktest.Call
	}{
		"configuration": {
			reason: "what is wrong is told as by a job", want: "updateStrategy",
			call: sdktest.Call{DeployItem: w.item(with(config(), "updateStrategy", "replace")), Target: w.Call.Target},
		},
		"target": {
			reason: "a target that cannot be asked is an error, not one of each object", want: "does not accept the credentials",
			call: sdktest.Call{DeployItem: w.item(config(w.configMap("a", nil))), Target: w.Target("cluster", anonymous())},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.Plugin.Diff(t.Context(), c.call)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: expected an error with %q, but found %v", c.reason, c.want, err)
			}
		})
	}
}
