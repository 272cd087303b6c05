package apply_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Rule (manifest.md#managed-resources): Objects wait for their missing or terminating namespace, and the error names
// it.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []managedresource.UpdateStrategy{managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyApply} {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			w.Namespace = "absent-" + w.Namespace
			_, err := w.run(manifest(w.ConfigMap("a", nil), strategy(s)))
			w.mustFail(err, apply.ReasonNamespaceMissing, false, "manifests[0].manifest: apply ConfigMap "+w.Namespace+"/a",
				"namespace "+w.Namespace+" does not exist", "create it, or add it to the manifests")

			// No controller of the test cluster ever finishes this deletion.
			w.Namespace = plugintest.New(t).Namespace
			w.Delete(namespaces, w.Namespace)
			_, err = w.run(manifest(w.ConfigMap("b", nil), strategy(s)))
			w.mustFail(err, apply.ReasonNamespaceTerminating, false, "namespace "+w.Namespace, "is being deleted", "wait until it is gone")
			changes := w.diff(manifest(w.ConfigMap("b", nil), strategy(s)))
			if len(changes) != 1 || changes[0].Action != sdk.ActionFail || !strings.Contains(changes[0].Note, "is being deleted") {
				t.Errorf("expected a failure to be foreseen, but found %+v", changes)
			}
		})
	}
}

// Rule (manifest.md#order): If some objects fail, the error names each with its reason, and the others are applied.
func TestErrorsOfAllObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ghost := fields{"apiVersion": "example.org/v1", "kind": "Ghost", "metadata": fields{"name": "g"}}
	bad := w.ConfigMap("bad", fields{"not a key": "x"})
	manifests := []desired.Manifest{manifest(ghost), manifest(bad), manifest(w.ConfigMap("good", nil)), manifest(w.ConfigMap("Bad", nil))}
	result, err := w.run(manifests...)
	w.mustFail(err, target.ReasonRejected, true, "manifests[1].manifest: apply ConfigMap "+w.Namespace+"/bad: ",
		"manifests[3].manifest: apply ConfigMap "+w.Namespace+"/Bad: ",
		"manifests[0].manifest: apply Ghost g: target cluster "+w.client.Host+" serves no kind Ghost in example.org/v1")
	if len(result.Applied) != 1 || w.MustGet(configMaps, "good") == nil {
		t.Errorf("expected the good one to be applied, but found %+v", result.Applied)
	}

	// An unknown kind is worth another try, and is the only error that is.
	result, err = w.run(manifests[0], manifests[2])
	w.mustFail(err, target.ReasonUnknownKind, false, "serves no kind Ghost")
	if len(result.Applied) != 1 {
		t.Errorf("expected the other one to be applied, but found %+v", result.Applied)
	}

	changes := w.diff(manifests...)
	actions := map[string]sdk.Action{}
	for _, c := range changes {
		actions[c.Object] = c.Action
		if c.Action == sdk.ActionFail && c.Note == "" {
			t.Errorf("expected a note why it fails: %+v", c)
		}
	}
	if len(changes) != 3 || actions["Ghost g"] != sdk.ActionFail || actions["ConfigMap "+w.Namespace+"/bad"] != sdk.ActionFail {
		t.Errorf("expected three failures, but found %v", actions)
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Namespace = "default"
	withoutNamespace := w.ConfigMap("twice", nil)
	delete(withoutNamespace["metadata"].(fields), "namespace")
	ghost := fields{"apiVersion": "example.org/v1", "kind": "Ghost", "metadata": fields{"name": "g"}}
	for name, manifests := range map[string][]desired.Manifest{
		"namespace":    {manifest(w.ConfigMap("twice", nil)), manifest(withoutNamespace)},
		"ignored":      {manifest(w.ConfigMap("twice", nil)), manifest(withoutNamespace, policy(managedresource.PolicyIgnore))},
		"unknown kind": {manifest(ghost), manifest(ghost)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			_, err := w.plan(manifests...)
			w.mustFail(err, apply.ReasonDuplicate, true, "manifests[1].manifest: ", "is already in manifests[0].manifest")
		})
	}
}

// TestIgnoredKindsNeedNotExist: what is left alone may be of any kind.
func TestIgnoredKindsNeedNotExist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ghost := fields{"apiVersion": "example.org/v1", "kind": "Ghost", "metadata": fields{"name": "g"}}
	result := w.mustRun(manifest(ghost, policy(managedresource.PolicyIgnore)))
	if len(result.Skipped) != 1 || result.Skipped[0].Key.Kind != "Ghost" || len(w.inventory) > 0 {
		t.Errorf("expected it to be skipped and not in the inventory, but found %+v and %v", result, w.inventory)
	}
	w.mustRequest()
}

// Rule (manifest.md#update-strategies): `apply` takes a conflicting field over only with `force`; the error names field
// and manager.
func TestFieldConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	applied := strategy(managedresource.UpdateStrategyApply)
	w.mustRun(manifest(w.ConfigMap("a", fields{"ours": "1", "both": "1"}), applied))
	w.Patch(configMaps, "a", `{"data":{"both":"2","theirs":"2"}}`)

	m := manifest(w.ConfigMap("a", fields{"ours": "2", "both": "1"}), applied)
	result, err := w.run(m)
	w.mustFail(err, apply.ReasonFieldConflict, true, ".data.both", `"another-client"`,
		"leave them out of the manifest", "force: true at manifests[0]")
	if strings.Contains(err.Error(), ".data.ours") || len(result.Applied) > 0 {
		t.Errorf("expected a conflict over one field, but found %v and %+v", err, result.Applied)
	}
	if changes := w.diff(m); len(changes) != 1 || changes[0].Action != sdk.ActionFail || !strings.Contains(changes[0].Note, ".data.both") {
		t.Errorf("expected a failure to be foreseen, but found %+v", changes)
	}

	force(&m)
	w.mustRun(m)
	if data := dataOf(w.MustGet(configMaps, "a")); data["both"] != "1" || data["ours"] != "2" || data["theirs"] != "2" {
		t.Errorf("expected our fields to be taken over and the others to stay, but found %v", data)
	}
}

// TestLabelsDoNotConflict: an object of another deploy item is taken over by its policy, not by force.
func TestLabelsDoNotConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.prepare("a", others)
	w.Patch(configMaps, "a", `{"metadata":{"labels":{"`+upstreamLabel+`":"other"}}}`)
	m := manifest(w.ConfigMap("a", fields{"c": "manifest"}), strategy(managedresource.UpdateStrategyApply))
	if changes := w.diff(m); len(changes) != 1 || changes[0].Action != sdk.ActionUpdate {
		t.Errorf("expected an update to be foreseen, but found %+v", changes)
	}
	if result := w.mustRun(m); len(result.TakenOver) != 1 {
		t.Errorf("expected it to be taken over, but found %+v", result)
	}
}

// TestUntrackedFields: where the API server does not know who has written what, only an object that deploy items have
// written is not in conflict.
func TestUntrackedFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, found := range map[string]state{"ours": ours, "others": others, "nobodys": nobodys} {
		w.prepare(name, found)
		w.Patch(configMaps, name, `{"metadata":{"managedFields":[{}]}}`)
		_, err := w.run(manifest(w.ConfigMap(name, fields{"a": "manifest"}), strategy(managedresource.UpdateStrategyApply)))
		if found == nobodys {
			w.mustFail(err, apply.ReasonFieldConflict, true, ".data.a")
		} else if err != nil {
			t.Errorf("%s: expected no conflict, but found %v", name, err)
		}
	}
}

// TestAdoptionTakesNothingFromOthers: also when it changes to server-side apply, an item needs force for the fields of
// others.
func TestAdoptionTakesNothingFromOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.ConfigMap("a", fields{"both": "1"})))
	w.Patch(configMaps, "a", `{"data":{"both":"2"}}`)
	_, err := w.run(manifest(w.ConfigMap("a", fields{"both": "1"}), strategy(managedresource.UpdateStrategyApply)))
	w.mustFail(err, apply.ReasonFieldConflict, true, ".data.both")
}

// TestSecretsStaySecret: what the API server says about a Secret with a mistake in it does not repeat its values.
// Rule (SECURITY.md#secrets): Texts of an API server about a refused Secret are hidden.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, data := range map[string]fields{
		"number": {"data": fields{"password": int64(8675309)}},
		"map":    {"data": fields{"password": fields{"inner": "c3VwZXJzZWNyZXQ8675309"}}},
		"base64": {"data": fields{"password": "8675309-not-base64"}},
		"texts":  {"stringData": fields{"password": int64(8675309)}},
		"list":   {"data": []any{"8675309"}},
		"flag":   {"immutable": "yes", "data": fields{"password": "ODY3NTMwOQ=="}},
	} {
		for _, s := range managedresource.UpdateStrategies() {
			t.Run(name+"-"+lower(s), func(t *testing.T) {
				t.Parallel()
				w := w.in(t)
				secret := fields{"apiVersion": "v1", "kind": "Secret", "metadata": fields{"name": name + "-" + lower(s), "namespace": w.Namespace}}
				for _, exists := range []bool{false, true} {
					if exists {
						w.Create(secrets, secret)
					}
					broken := (&unstructured.Unstructured{Object: secret}).DeepCopy().Object
					for key, value := range data {
						broken[key] = value
					}
					_, err := w.run(manifest(broken, strategy(s)))
					if err == nil {
						t.Fatal("expected an error")
					}
					if strings.Contains(err.Error(), "8675309") || strings.Contains(err.Error(), "ODY3NTMwOQ") {
						t.Errorf("the value of a secret is in the error: %v", err)
					}
				}
			})
		}
	}
}

// TestSecretsThatAreInvalid: what does not quote values, is passed on.
func TestSecretsThatAreInvalid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := fields{
		"apiVersion": "v1", "kind": "Secret", "metadata": fields{"name": "s", "namespace": w.Namespace}, "immutable": true,
		"data": fields{"password": "ODY3NTMwOQ=="},
	}
	w.mustRun(manifest(secret))
	secret["data"] = fields{"password": "b3RoZXI="}
	_, err := w.run(manifest(secret))
	w.mustFail(err, apply.ReasonImmutableField, true, "data: Forbidden: field is immutable")
	broken := copyOf(secret)
	broken["metadata"].(fields)["name"] = "t"
	broken["data"] = fields{"not a key": "eA=="}
	_, err = w.run(manifest(broken))
	w.mustFail(err, target.ReasonRejected, true, "data[not a key]")
	broken["data"] = fields{"password": int64(1)}
	_, err = w.run(manifest(broken))
	w.mustFail(err, target.ReasonRejected, true, "cannot unmarshal number")
}

// TestApplyOfUnknownField: server-side apply refuses what is not in the schema with an error that might be anything. It
// is the user's to mend.
func TestApplyOfUnknownField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := manifest(w.Deployment("web", 1), strategy(managedresource.UpdateStrategyApply))
	bad := w.Deployment("web", 1)
	bad["spec"].(fields)["templte"] = fields{}
	for range 2 { // when it is created, and when it is changed
		_, err := w.run(manifest(bad, strategy(managedresource.UpdateStrategyApply)))
		w.mustFail(err, target.ReasonRejected, true, "manifests[0].manifest", "Deployment "+w.Namespace+"/web", `unknown field "spec.templte"`)
		w.mustRun(good)
	}
}
