package apply_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

var ghost = plugintest.Fields(`{apiVersion: example.org/v1, kind: Ghost, metadata: {name: g}}`)

// TestUnknownFields: all strategies fail over a field that the kind does not have, when they create an object and when
// they change it; unless they are told to pass it over, and then there is a warning. Server-side apply cannot pass it
// over.
// Rule (manifest.md#for-operators): A field unknown to the kind of an object fails all strategies, or causes a warning
// without `strict`.
func TestUnknownFields(t *testing.T) {
	each(t, func(w *world) {
		good, bad := manifest(w.Deployment("web", 1)), manifest(edit(w.Deployment("web", 2), "spec: {minReadySecond: 10}"))
		const unknown = `unknown field "spec.minReadySecond"`
		strict := apiserver.WithStrictFields(w.Context())
		for range 2 { // when it is created, and when it is changed
			_, err := w.runNew(strict, bad)
			w.mustFail(err, target.ReasonRejected, true, "manifests[0].manifest", "Deployment "+w.Namespace+"/web", unknown,
				"correct these fields or leave them out")
			if _, err := w.runNew(strict, good); err != nil {
				w.Fatal(err)
			}
		}
		result, err := w.runNew(w.Context(), bad)
		if w.strategy == byApply {
			w.mustFail(err, target.ReasonRejected, true, unknown)
		} else if err != nil || len(result.Warnings) == 0 || !strings.Contains(result.Warnings[0].Text, unknown) {
			w.Errorf("expected a warning, but found %v and %v", result.Warnings, err)
		}
	})
}

// Rule (manifest.md#managed-resources): Objects wait for their missing or terminating namespace, and the error names
// it.
func TestNamespaces(t *testing.T) {
	each(t, func(w *world) {
		there := w.Namespace
		w.Namespace = "absent-" + there
		_, err := w.run(manifest(w.ConfigMap("a", nil)))
		w.mustFail(err, apply.ReasonNamespaceMissing, false, "manifests[0].manifest: apply ConfigMap "+w.Namespace+"/a",
			"namespace "+w.Namespace+" does not exist", "create it, or add it to the manifests")

		w.Namespace = there
		w.Delete(namespaces, there) // no controller of the test cluster ever finishes this deletion
		_, err = w.run(manifest(w.ConfigMap("b", nil)))
		w.mustFail(err, apply.ReasonNamespaceTerminating, false, "namespace "+there, "is being deleted",
			"wait until it is gone")
		w.mustForesee(sdk.ActionFail, "is being deleted", manifest(w.ConfigMap("b", nil)))
	}, byPatch, byMerge, byOverwrite) // these create as update does
}

// TestGroupThatIsDown: the server of a group may be an object of the deploy item, so the others are applied. For the
// objects of other clients, such as Helm's, the group is an error: to count as missing they have to be looked for.
// Rule (manifest.md#order): An API group whose server is down stops only its own objects.
func TestGroupThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := w.Namespace + ".example.org"
	w.Create(plugintest.APIServices, plugintest.Fields(`{apiVersion: apiregistration.k8s.io/v1, kind: APIService,
		metadata: {name: v1.`+group+`}, spec: {group: `+group+`, version: v1, groupPriorityMinimum: 100,
		versionPriority: 10, service: {name: absent, namespace: `+w.Namespace+`}}}`))
	thing := manifest(plugintest.Fields(`{apiVersion: ` + group + `/v1, kind: Thing, metadata: {name: t}}`))
	w.Eventually("the group to be known as down", func() bool {
		_, err := w.client.Mapping(w.Context(), thing.Object.GroupVersionKind(), time.Now())
		var down *target.GroupError
		return errors.As(err, &down)
	})
	manifests := []desired.Manifest{thing, manifest(w.ConfigMap("beside", nil))}
	result, err := w.run(manifests...)
	w.mustFail(err, target.ReasonTarget, false, "manifests[0].manifest: apply Thing t", group, "check its APIService")
	if len(result.Applied) != 1 {
		t.Errorf("expected the other object to be applied, but found %v", result.Applied)
	}
	if plan := w.mustPlan(manifests...); plan.Down() == nil {
		t.Error("expected an error about the group")
	}
	w.by = owner.Owner{}
	if _, err := w.plan(manifests...); err == nil {
		t.Error("expected an error about objects of others")
	}
}

// Rule (manifest.md#order): If some objects fail, the error names each with its reason, and the others are applied.
func TestErrorsOfAllObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	manifests := []desired.Manifest{
		manifest(ghost), manifest(w.ConfigMap("bad", fields{"not a key": "x"})), manifest(w.ConfigMap("good", nil)),
		manifest(w.ConfigMap("Bad", nil)),
	}
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
	for _, c := range changes {
		if c.Action != sdk.ActionFail || c.Note == "" || strings.HasSuffix(c.Object, "/good") {
			t.Errorf("expected the failures alone to be foreseen, with notes, but found %+v", c)
		}
	}
	if len(changes) != 3 {
		t.Errorf("expected three failures, but found %v", changes)
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Namespace = "default"
	twice := w.ConfigMap("twice", nil)
	without := edit(twice, "metadata: {namespace: null}")
	for name, manifests := range map[string][]desired.Manifest{
		"namespace":    {manifest(twice), manifest(without)},
		"ignored":      {manifest(twice), manifest(without, policy(managedresource.PolicyIgnore))},
		"unknown kind": {manifest(ghost), manifest(ghost)},
	} {
		t.Run(name, func(t *testing.T) {
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
	// Also when it changes to server-side apply, an item needs force for the fields of others.
	for _, before := range []managedresource.UpdateStrategy{byApply, byUpdate} {
		w := newWorld(t)
		w.mustRun(manifest(w.ConfigMap("a", fields{"ours": "1", "both": "1"}), strategy(before)))
		w.Patch(configMaps, "a", `{"data":{"both":"2","theirs":"2"}}`)

		w.strategy = byApply
		m := manifest(w.ConfigMap("a", fields{"ours": "2", "both": "1"}))
		result, err := w.run(m)
		w.mustFail(err, apply.ReasonFieldConflict, true, ".data.both", `"another-client"`,
			"leave them out of the manifest", "force: true at manifests[0]")
		if strings.Contains(err.Error(), ".data.ours") || len(result.Applied) > 0 {
			t.Errorf("%s: expected a conflict over one field, but found %v and %+v", before, err, result.Applied)
		}
		if before == byApply {
			w.mustForesee(sdk.ActionFail, ".data.both", m)
		}
		w.mustRun(manifest(w.ConfigMap("a", fields{"ours": "2", "both": "1"}), force))
		w.mustHave("a", fields{"ours": "2", "both": "1", "theirs": "2"})
	}
}

// TestLabelsDoNotConflict: an object of another deploy item is taken over by its policy, not by force.
func TestLabelsDoNotConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.prepare("a", others)
	w.Patch(configMaps, "a", `{"metadata":{"labels":{"`+upstreamLabel+`":"other"}}}`)
	m := manifest(w.ConfigMap("a", fields{"c": "manifest"}), strategy(byApply))
	w.mustForesee(sdk.ActionUpdate, "", m)
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
		_, err := w.run(manifest(w.ConfigMap(name, fields{"a": "manifest"}), strategy(byApply)))
		if found == nobodys {
			w.mustFail(err, apply.ReasonFieldConflict, true, ".data.a")
		} else if err != nil {
			t.Errorf("%s: expected no conflict, but found %v", name, err)
		}
	}
}

// TestSecretsStaySecret: what the API server says about a Secret with a mistake in it does not repeat its values.
// Rule (SECURITY.md#secrets): Texts of an API server about a refused Secret are hidden.
func TestSecretsStaySecret(t *testing.T) {
	each(t, func(w *world) {
		for name, data := range map[string]string{
			"number": `data: {password: 8675309}`,
			"map":    `data: {password: {inner: c3VwZXJzZWNyZXQ8675309}}`,
			"base64": `data: {password: 8675309-not-base64}`,
			"texts":  `stringData: {password: 8675309}`,
			"list":   `data: ["8675309"]`,
			"flag":   `{immutable: "yes", data: {password: ODY3NTMwOQ==}}`,
		} {
			broken := w.object("v1", "Secret", name, "")
			maps.Copy(broken, plugintest.Fields(data))
			for range 2 { // when it is created, and when it is changed
				_, err := w.run(manifest(broken))
				if err == nil {
					w.Fatalf("%s: expected an error", name)
				}
				if strings.Contains(err.Error(), "8675309") || strings.Contains(err.Error(), "ODY3NTMwOQ") {
					w.Errorf("%s: the value of a secret is in the error: %v", name, err)
				}
				if w.Get(secrets, name) == nil {
					w.Create(secrets, w.object("v1", "Secret", name, ""))
				}
			}
		}
	})
}

// TestSecretsThatAreInvalid: what does not quote values, is passed on.
func TestSecretsThatAreInvalid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := w.object("v1", "Secret", "s", `{immutable: true, data: {password: ODY3NTMwOQ==}}`)
	w.mustRun(manifest(secret))
	_, err := w.run(manifest(edit(secret, `data: {password: b3RoZXI=}`)))
	w.mustFail(err, apply.ReasonImmutableField, true, "data: Forbidden: field is immutable")
	_, err = w.run(manifest(w.object("v1", "Secret", "t", `data: {not a key: eA==}`)))
	w.mustFail(err, target.ReasonRejected, true, "data[not a key]")
	_, err = w.run(manifest(w.object("v1", "Secret", "t", `data: {password: 1}`)))
	w.mustFail(err, target.ReasonRejected, true, "cannot unmarshal number")
}
