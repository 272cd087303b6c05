package prune_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Rule (manifest.md#deletion): A step of a deletion starts when the objects of the previous one are gone.
func TestDefaultOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	object, role := w.configMap("a", hold), w.role("a", hold)
	definition, _ := w.crd("Thing")
	w.patch(crds, "", definition.Resource.Name, `{"metadata":{"finalizers":["`+hold+`"]}}`)
	entries := []entry{definition, role, object}

	w.mustWaitFor(w.mustRun(w.deletion("", entries...)), "ConfigMap "+w.Namespace+"/a", "being deleted since", hold)
	w.mustBe("there", role, definition)
	w.patch(configMaps, w.Namespace, "a", `{"metadata":{"finalizers":null}}`)

	result := w.mustRun(w.deletion("", entries...))
	w.mustWaitFor(result, "ClusterRole "+role.Resource.Name, hold)
	if diff := cmp.Diff([]string{"ConfigMap " + w.Namespace + "/a"}, gone(result)); diff != "" {
		t.Errorf("gone: -want +got:\n%s", diff)
	}
	w.mustBe("there", definition)
	w.patch(roles, "", role.Resource.Name, `{"metadata":{"finalizers":null}}`)

	w.mustWaitFor(w.mustRun(w.deletion("", role, definition)), "CustomResourceDefinition "+definition.Resource.Name)
	w.patch(crds, "", definition.Resource.Name, `{"metadata":{"finalizers":null}}`)
	w.mustFinish(w.deletion("", definition))
	w.mustBe("gone", entries...)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, held := w.configMap("plain"), w.configMap("held", hold)
	prepared := w.configMap("prepared")
	prepared.AnnotateBeforeDelete = map[string]string{"a": "b"}
	for _, c := range []struct {
		reason string
		entry  entry
		want   []string
	}{
		{"it is looked at, deleted and seen gone", plain, []string{"GET plain", "DELETE plain", "GET plain"}},
		{"what is gone costs one look", plain, []string{"GET plain"}},
		{"what stays is deleted, too", held, []string{"GET held", "DELETE held", "GET held"}},
		{"what is being deleted costs one look", held, []string{"GET held"}},
		{"a change costs one more", prepared, []string{"GET prepared", "PATCH prepared", "DELETE prepared", "GET prepared"}},
	} {
		w.requested()
		w.mustRun(w.deletion("", c.entry))
		if diff := cmp.Diff(c.want, w.requested()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.reason, diff)
		}
	}
}

// TestRequestsOfManyObjects: the first looks at several objects of a kind in a namespace are one list.
func TestRequestsOfManyObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var entries []entry
	for i := range 6 {
		entries = append(entries, w.configMap(fmt.Sprintf("object-%d", i), hold))
	}
	w.patch(configMaps, w.Namespace, "object-4", `{"metadata":{"labels":{"`+owner.Label+`":"x.other"}}}`)
	w.patch(configMaps, w.Namespace, "object-5", `{"metadata":{"labels":null}}`)
	count := func() map[string]int {
		counts := map[string]int{}
		for _, request := range w.requested() {
			method, name, _ := strings.Cut(request, " ")
			if name == "configmaps" {
				method = "list"
			}
			counts[method]++
		}
		return counts
	}
	count()
	first := w.mustRun(w.deletion("", entries...))
	if diff := cmp.Diff(map[string]int{"list": 1, "DELETE": 5, "GET": 5 + 2}, count()); diff != "" {
		t.Errorf("what the list does not show is looked at by itself: -want +got:\n%s", diff)
	}
	w.mustBe("there", entries[4])
	w.mustBe("deleted", entries[0], entries[5])

	second := w.mustRun(w.deletion("", entries...))
	if diff := cmp.Diff(map[string]int{"list": 1, "GET": 2}, count()); diff != "" {
		t.Errorf("requests while objects are being deleted: -want +got:\n%s", diff)
	}
	slices.Sort(first.Waiting)
	slices.Sort(second.Waiting)
	if diff := cmp.Diff(first.Waiting, second.Waiting); diff != "" || len(second.Seen) != 5 {
		t.Errorf("a list tells as much as a look at each: %+v; -want +got:\n%s", second.Seen, diff)
	}

	w.Requests.Fail(func(r *http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/configmaps") {
			return errors.New("cut off")
		}
		return nil
	})
	if third := w.mustRun(w.deletion("", entries...)); len(third.Waiting) != 5 {
		t.Errorf("expected each object to be looked at without the list, but found %q", third.Waiting)
	}
}

// TestWhatIsDeleted: whether an object is deleted depends on what is known of it, on its labels and on the policy.
func TestWhatIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := owner.Owner{Namespace: w.Namespace, Name: "other", UpstreamLabel: upstreamLabel}
	elsewhere := owner.Owner{Namespace: "elsewhere", Name: "item", UpstreamLabel: upstreamLabel}
	ours, theirs := w.owner.Labels(), other.Labels()
	unlabelled := map[string]string{}
	upstream := func(o owner.Owner) map[string]string {
		return map[string]string{upstreamLabel: o.Labels()[upstreamLabel]}
	}
	for name, c := range map[string]struct {
		reason string
		policy managedresource.Policy
		labels map[string]string
		uid    string // "known", "" for unknown, or that of another object
		state  string
		left   string // part of why it is left; empty if it counts as gone
	}{
		"ours": {"it is deleted", "", ours, "known", "gone", ""},
		// Rule (manifest.md#manifests): `manage` deletes an object.
		"manage": {"manage is the default", "manage", ours, "known", "gone", ""},
		// Rule (manifest.md#manifests): `immutable` deletes an object with the item.
		"immutable":              {"immutable objects are not updated, but deleted", "immutable", ours, "known", "gone", ""},
		"labels removed":         {"the uid proves that it is ours", "", unlabelled, "known", "gone", ""},
		"labelled by Landscaper": {"its label says nothing against the uid", "", upstream(other), "known", "gone", ""},
		"taken over":             {"another deploy item manages it now", "", theirs, "known", "there", `it belongs to the deploy item "` + other.Labels()[owner.Label] + `"`},
		// Rule (SECURITY.md#authors-of-items): An item does not take the objects of an item with its name.
		"equal name": {"equal names in two namespaces are two deploy items", "", elsewhere.Labels(), "known", "there", `it belongs to the deploy item "elsewhere.item"`},
		// Rule (manifest.md#managed-resources): A deletion leaves an object recreated by another client.
		"exchanged":               {"an object with another uid is another object", "", ours, "7f5c0e5e-0000-0000-0000-000000000000", "there", "another client has created it anew"},
		"created but not noted":   {"the label proves that it is ours", "", ours, "", "gone", ""},
		"adopted from Landscaper": {"so does Landscaper's", "", upstream(w.owner), "", "gone", ""},
		"never created":           {"what was there before is nobody's to delete", "", unlabelled, "", "there", "it belongs to no deploy item"},
		"created by another item": {"nor is what others have created", "", theirs, "", "there", "it belongs to"},
		// Rule (manifest.md#manifests): `keep` never deletes an object.
		"keep": {"it is not deleted", "keep", ours, "known", "there", "policy keep"},
		// Rule (manifest.md#manifests): `ignore` deletes nothing.
		"ignore": {"it is not ours", "ignore", ours, "known", "there", "policy ignore"},
		// Rule (manifest.md#manifests): `fallback` deletes an owned object.
		"fallback, ours":     {"nobody else wants it", "fallback", ours, "known", "gone", ""},
		"fallback, nobody's": {"somebody has taken our label away", "fallback", unlabelled, "known", "there", "policy fallback"},
		// Rule (manifest.md#manifests): `fallback` does not delete an object of another owner.
		"fallback, others'":        {"somebody else manages it", "fallback", theirs, "known", "there", "it belongs to"},
		"fallback, Landscaper's":   {"so does Landscaper", "fallback", upstream(other), "known", "there", "policy fallback"},
		"fallback, adopted":        {"it is ours by Landscaper's label", "fallback", upstream(w.owner), "known", "gone", ""},
		"fallback, unknown others": {"it was never ours", "fallback", theirs, "", "there", "it belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := "object-" + uuid.NewString()[:8]
			labels := map[string]any{}
			for key, value := range c.labels {
				labels[key] = value
			}
			e := w.create(configMaps, w.Namespace, object, map[string]any{"metadata": map[string]any{"labels": labels}})
			e.Policy = c.policy
			if len(c.labels) == 0 {
				w.patch(configMaps, w.Namespace, object, `{"metadata":{"labels":null}}`)
			}
			if c.uid != "known" {
				e.Resource.UID = types.UID(c.uid)
			}
			result := w.mustFinish(w.deletion("", e))
			if got := w.state(e); got != c.state {
				t.Errorf("%s: expected the object to be %s, but it is %s", c.reason, c.state, got)
			}
			found := left(result)
			if (len(found) == 0) != (c.left == "") || len(found) > 0 && !strings.Contains(found[0], c.left) {
				t.Errorf("%s: expected it to be left for %q, but found %q", c.reason, c.left, found)
			}
		})
	}
}

// TestGroups: which objects are there, being deleted and gone after one call. Each object has a finalizer, so that its
// group is not finished.
func TestGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, groups string
		states         [3]string // of a ConfigMap, a Secret and a ClusterRole
		left           int
	}{
		// Rule (manifest.md#deletion): `forceDelete` removes finalizers, only in its group.
		"force": {
			"finalizers are removed, but only in the group that says so",
			`[{"predefinedResourceGroup":{"type":"namespaced-resources","forceDelete":true}},{"predefinedResourceGroup":{"type":"cluster-scoped-resources"}}]`,
			[3]string{"gone", "gone", "deleted"}, 0,
		},
		"custom": {
			"names of kinds may be plural and in any case",
			`[{"customResourceGroup":{"resources":[{"apiVersion":"v1","kind":"configmaps"}],"forceDelete":true}},
				{"customResourceGroup":{"resources":[{"apiVersion":"v1","kind":"secret"},{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"CLUSTERROLES"}]}}]`,
			[3]string{"gone", "deleted", "deleted"}, 0,
		},
		"unknown kind": {
			"a kind may not be defined any more",
			`[{"customResourceGroup":{"resources":[{"apiVersion":"gone.example.org/v1","kind":"Relic"}]}},
				{"predefinedResourceGroup":{"type":"namespaced-resources","forceDelete":true}}]`,
			[3]string{"gone", "gone", "there"}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			entries := []entry{
				w.configMap("a", hold), w.create(secrets, w.Namespace, "a", withFinalizers(hold)), w.role("a", hold),
			}
			result := w.mustRun(w.deletion(c.groups, entries...))
			for i, e := range entries {
				if got := w.state(e); got != c.states[i] {
					t.Errorf("%s: expected the %s to be %s, but it is %s", c.reason, e.Resource.Kind, c.states[i], got)
				}
			}
			want := c.left
			if len(result.Waiting) > 0 {
				want = 0 // until the deletion is complete
			}
			if len(result.Left) != want {
				t.Errorf("%s: expected %d objects to be left, but found %q", c.reason, want, left(result))
			}
		})
	}
}

// TestIrregularPlural: a group may name a kind by a plural that only the API server knows.
// Rule (manifest.md#deletion): A group may name a kind by its plural.
func TestIrregularPlural(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, children := w.CRD("Child")
	children.Resource = "children"
	spec := definition["spec"].(map[string]any)
	spec["names"].(map[string]any)["plural"] = children.Resource
	w.create(crds, "", children.Resource+"."+children.Group, map[string]any{"spec": spec})
	w.DeleteAfter(crds, children.Resource+"."+children.Group)
	w.Eventually("the kind to be served", func() bool {
		_, err := w.in(children, w.Namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	e := w.create(children, w.Namespace, "a", map[string]any{"kind": "Child"})
	group := fmt.Sprintf(`[{"customResourceGroup":{"resources":[{"apiVersion":%q,"kind":"children"}]}}]`, children.GroupVersion())
	if result := w.mustFinish(w.deletion(group, e)); len(result.Gone) != 1 {
		t.Errorf("expected the object to be gone, but found %q", left(result))
	}
}

// TestOrder: of random groups, each is begun when all that the one before has taken was seen gone, and what no group
// takes is not touched.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	groups := map[string]string{
		"namespaced":     `{"predefinedResourceGroup":{"type":"namespaced-resources"}}`,
		"cluster-scoped": `{"predefinedResourceGroup":{"type":"cluster-scoped-resources"}}`,
		"empty":          `{"predefinedResourceGroup":{"type":"empty"}}`,
		"ConfigMap":      `{"customResourceGroup":{"resources":[{"apiVersion":"v1","kind":"configmaps"}]}}`,
		"Secret":         `{"customResourceGroup":{"resources":[{"apiVersion":"v1","kind":"Secret"}]}}`,
	}
	takes := map[string][]string{
		"ConfigMap": {"namespaced", "ConfigMap"}, "Secret": {"namespaced", "Secret"}, "ClusterRole": {"cluster-scoped"},
	}
	order := rapid.Permutation([]string{"namespaced", "cluster-scoped", "empty", "ConfigMap", "Secret"})
	for seed := range 20 {
		chosen := order.Example(seed)[:1+seed%5]
		var documents []string
		for _, g := range chosen {
			documents = append(documents, groups[g])
		}
		entries := []entry{w.role("c"), w.configMap("a"), w.create(secrets, w.Namespace, "b", nil)}
		groupOf := map[string]int{}
		for _, e := range entries {
			groupOf[e.Resource.Name] = slices.IndexFunc(chosen, func(g string) bool { return slices.Contains(takes[e.Resource.Kind], g) })
		}
		w.requested()
		result := w.mustFinish(w.deletion("["+strings.Join(documents, ",")+"]", entries...))

		reached := 0
		for _, request := range w.requested() {
			_, name, _ := strings.Cut(request, " ")
			if groupOf[name] < reached {
				t.Errorf("groups %q: the request %q came after group %d was begun", chosen, request, reached)
			}
			reached = groupOf[name]
		}
		for _, e := range entries {
			taken := groupOf[e.Resource.Name] >= 0
			if (w.state(e) == "gone") != taken {
				t.Errorf("groups %q: expected that %s is taken to be %t, but it is %s", chosen, e.Resource.Kind, taken, w.state(e))
			}
			if !taken {
				w.mustFinish(w.deletion("", e))
			}
		}
		if taken := len(result.Gone); taken+len(result.Left) != len(entries) {
			t.Errorf("groups %q: expected each entry once, but found %+v", chosen, result)
		}
	}
}

// TestPreparedBeforeDeletion: a webhook for deletions sees the object as it was prepared. Where there is no webhook, a
// finalizer shows it.
// Rule (manifest.md#manifests): `annotateBeforeDelete` and `patchBeforeDelete` are applied before a deletion, once.
func TestPreparedBeforeDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.configMap("a", hold)
	e.AnnotateBeforeDelete = map[string]string{"confirm": "true"}
	e.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(`{"data":{"mode":"down"}}`)}

	// The call is cut off between the change and the deletion.
	w.Requests.Fail(failing(http.MethodDelete))
	if _, err := w.run(w.deletion("", e)); err == nil {
		t.Fatal("expected an error")
	}
	w.Requests.Undisturbed()
	w.requested()
	w.mustWaitFor(w.mustRun(w.deletion("", e)), hold)
	if diff := cmp.Diff([]string{"GET a", "DELETE a", "GET a"}, w.requested()); diff != "" {
		t.Errorf("what was changed already is not changed again: -want +got:\n%s", diff)
	}
	live := w.get(e)
	data, _ := live.Object["data"].(map[string]any)
	if live.GetAnnotations()["confirm"] != "true" || data["mode"] != "down" {
		t.Errorf("expected the object to be prepared, but found %v and %v", live.GetAnnotations(), data)
	}
}
