package prune_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestNamespaceOfTheItem: nothing waits for the end of the namespace with the deploy item, unless it is on another
// cluster.
// Rule (manifest.md#deletion): An item that deploys its own namespace does not wait for its end.
func TestNamespaceOfTheItem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		atHome bool
		item   string // its namespace, after that of the test
		waits  bool
	}{
		"its own":            {true, "-own", false},
		"another one":        {true, "-other", true},
		"on another cluster": {false, "-own", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.owner.Namespace += c.item
			namespace := w.create("Namespace", "NS-own", "") // no controller ends it in the tests
			d := w.deletion("", namespace)
			d.AtHome = c.atHome
			if got := len(w.mustRun(d).Waiting) > 0; got != c.waits {
				t.Errorf("expected that it waits: %t, but found %t", c.waits, got)
			}
			w.mustBe("deleted", namespace)
		})
	}
}

// TestWhatIsDeleted: the entry, the labels and the policy decide about an object.
func TestWhatIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ours := w.owner.Labels()
	theirs := owner.Owner{Namespace: w.Namespace, Name: "other", UpstreamLabel: upstreamLabel}.Labels()
	elsewhere := owner.Owner{Namespace: "elsewhere", Name: "item", UpstreamLabel: upstreamLabel}.Labels()
	unlabelled := map[string]string{"app": "a"}
	upstream := func(labels map[string]string) map[string]string {
		return map[string]string{upstreamLabel: labels[upstreamLabel]}
	}
	const known = "known"
	for name, c := range map[string]struct {
		policy managedresource.Policy
		labels map[string]string
		uid    types.UID // known is that of the object
		left   string    // a part of the reason why the object stays; empty if it is deleted
	}{
		"ours": {"", ours, known, ""},
		// Rule (manifest.md#manifests): `manage` deletes an object.
		"manage": {"manage", ours, known, ""},
		// Rule (manifest.md#manifests): `immutable` deletes an object with the item.
		"immutable":              {"immutable", ours, known, ""},
		"labels removed":         {"", unlabelled, known, ""},
		"labelled by Landscaper": {"", upstream(theirs), known, ""},
		"taken over":             {"", theirs, known, `the deploy item "` + theirs[owner.Label] + `"`},
		// Rule (SECURITY.md#authors-of-items): An item does not take the objects of an item with its name.
		"equal name": {"", elsewhere, known, `it belongs to the deploy item "elsewhere.item"`},
		// Rule (manifest.md#managed-resources): A deletion leaves an object recreated by another client.
		"exchanged":               {"", ours, anotherUID, "another client has created it anew"},
		"created but not noted":   {"", ours, "", ""},
		"adopted from Landscaper": {"", upstream(ours), "", ""},
		"never created":           {"", unlabelled, "", "it belongs to no deploy item"},
		"created by another item": {"", theirs, "", "it belongs to"},
		// Rule (manifest.md#manifests): `keep` never deletes an object.
		"keep": {"keep", ours, known, "policy keep"},
		// Rule (manifest.md#manifests): `ignore` deletes nothing.
		"ignore": {"ignore", ours, known, "policy ignore"},
		// Rule (manifest.md#manifests): `fallback` deletes an owned object.
		"fallback, ours":     {"fallback", ours, known, ""},
		"fallback, nobody's": {"fallback", unlabelled, known, "policy fallback"},
		// Rule (manifest.md#manifests): `fallback` does not delete an object of another owner.
		"fallback, others'":        {"fallback", theirs, known, "it belongs to"},
		"fallback, Landscaper's":   {"fallback", upstream(theirs), known, "policy fallback"},
		"fallback, adopted":        {"fallback", upstream(ours), known, ""},
		"fallback, unknown others": {"fallback", theirs, "", "it belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var labels []string
			for key, value := range c.labels {
				labels = append(labels, key+": "+value)
			}
			e := w.create("ConfigMap", "a-"+uuid.NewString(), "metadata: {labels: {"+strings.Join(labels, ", ")+"}}")
			e.Policy = c.policy
			if c.uid != known {
				e.Resource.UID = c.uid
			}
			result, err := w.run(w.deletion("", e))
			if err != nil || len(result.Gone)+len(result.Left) != 1 || (len(result.Left) > 0) != (w.state(e) == "there") {
				t.Fatalf("expected it to be gone or left, but it is %s, in %+v, error %v", w.state(e), result, err)
			}
			why := ""
			if len(result.Left) > 0 {
				why = result.Left[0].Why
			}
			if (why != "") != (c.left != "") || !strings.Contains(why, c.left) {
				t.Errorf("expected it to be left for %q, but found %q", c.left, why)
			}
		})
	}
}

// TestNotedLate: an inventory may have an object by another name, without its uid, or with the uid before the item has
// created it anew.
func TestNotedLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	applied, anew := w.create("ConfigMap", "applied", ""), w.create("ConfigMap", "anew", "")
	d := w.deletion("")
	d.Applied = map[types.UID]bool{applied.Resource.UID: true}
	applied.Resource.UID, anew.Resource.UID = "", anotherUID
	if _, err := anew.in.Patch(t.Context(), "anew", types.MergePatchType, []byte(`{"data":{"a":"b"}}`),
		metav1.PatchOptions{FieldManager: "pergola"}); err != nil {
		t.Fatal(err)
	}
	d.Entries = w.deletion("", applied, anew).Entries
	w.mustFinish(d)
	w.mustBe("there", applied)
	w.mustBe("gone", anew)
}

// TestNothingIsDeletedThatHasChanged: what happens to an object between the look at it and its deletion.
// Rule (SECURITY.md#owners-of-target-clusters): An object is deleted only in the version seen before.
func TestNothingIsDeletedThatHasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meet  func(w *world, e *entry)
		times int
		state string
	}{
		"taken over": {func(w *world, e *entry) {
			w.patch(e, "metadata: {labels: {"+owner.Label+": other.item}}")
		}, 1, "there"},
		"exchanged": {func(w *world, e *entry) {
			w.remove(e)
			w.create("ConfigMap", "a", "")
		}, 1, "there"},
		"deleted": {(*world).remove, 1, "gone"},
		"in constant change": {func(w *world, e *entry) {
			w.patch(e, "data: {counter: "+uuid.NewString()+"}")
		}, 100, "gone"},
		"annotation is lost": {func(w *world, e *entry) {
			w.patch(w.held(e), "metadata: {annotations: null}")
		}, 1, "deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e, times := w.create("ConfigMap", "a", ""), 0
			e.AnnotateBeforeDelete = map[string]string{"confirm": "yes"}
			w.Requests.Fail(func(r *http.Request) error {
				if r.Method == http.MethodDelete && times < c.times {
					times++
					c.meet(w, e)
				}
				return nil
			})
			result := w.mustRun(w.deletion("", e))
			if got := w.state(e); got != c.state || (len(result.Left) > 0) != (got == "there") {
				t.Errorf("expected the object to be %s, but it is %s: %+v", c.state, got, result)
			}
			if got := w.state(e); got == "deleted" && w.get(e).GetAnnotations()["confirm"] != "yes" {
				t.Error("expected the annotation to be set again before the deletion")
			}
		})
	}
}

// TestOrder: of random groups, each begins when all objects of the one before were seen gone, and an object without a
// group is not touched.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	groups := map[string]string{
		"namespaced":     "{predefinedResourceGroup: {type: namespaced-resources}}",
		"cluster-scoped": "{predefinedResourceGroup: {type: cluster-scoped-resources}}",
		"empty":          "{predefinedResourceGroup: {type: empty}}",
		"ConfigMap":      "{customResourceGroup: {resources: [{apiVersion: v1, kind: configmaps}]}}",
		"Secret":         "{customResourceGroup: {resources: [{apiVersion: v1, kind: Secret}]}}",
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
		entries := []*entry{
			w.create("ClusterRole", "NS-c", ""), w.create("ConfigMap", "a", ""), w.create("Secret", "b", ""),
		}
		groupOf := map[string]int{}
		for _, e := range entries {
			takers := takes[e.Resource.Kind]
			groupOf[e.Resource.Name] = slices.IndexFunc(chosen, func(g string) bool { return slices.Contains(takers, g) })
		}
		w.requested()
		w.mustFinish(w.deletion("["+strings.Join(documents, ", ")+"]", entries...))
		reached := 0
		for _, request := range w.requested() {
			_, name, _ := strings.Cut(request, " ")
			if groupOf[name] < reached {
				t.Errorf("groups %q: the request %q came after the begin of group %d", chosen, request, reached)
			}
			reached = groupOf[name]
		}
		for _, e := range entries {
			taken := groupOf[e.Resource.Name] >= 0
			if (w.state(e) == "gone") != taken {
				t.Errorf("groups %q: expected %s taken to be %t, but it is %s", chosen, e.Resource.Kind, taken, w.state(e))
			}
			if !taken {
				w.mustFinish(w.deletion("", e))
			}
		}
	}
}

// TestRequestsOfManyObjects: the first reads of several objects of a kind in a namespace are one list.
func TestRequestsOfManyObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var entries []*entry
	for i := range 6 {
		entries = append(entries, w.held(w.create("ConfigMap", fmt.Sprintf("object-%d", i), "")))
	}
	w.patch(entries[4], "metadata: {labels: {"+owner.Label+": x.other}}")
	w.patch(entries[5], "metadata: {labels: null}")
	waiting := func(want map[string]int) []string {
		t.Helper()
		w.requested()
		result := w.mustRun(w.deletion("", entries...))
		counts := map[string]int{}
		for _, request := range w.requested() {
			method, name, _ := strings.Cut(request, " ")
			if name == "configmaps" {
				method = "list"
			}
			counts[method]++
		}
		if diff := cmp.Diff(want, counts); diff != "" && want != nil || len(result.Seen) != 5 {
			t.Errorf("expected five objects to watch, but found %d; requests: -want +got:\n%s", len(result.Seen), diff)
		}
		slices.Sort(result.Waiting)
		return result.Waiting
	}
	// Two objects are not in a list by the label.
	first := waiting(map[string]int{"list": 1, "DELETE": 5, "GET": 5 + 2})
	w.mustBe("there", entries[4])
	w.mustBe("deleted", entries[0], entries[5])
	if diff := cmp.Diff(first, waiting(map[string]int{"list": 1, "GET": 2})); diff != "" {
		t.Errorf("a list tells as much as a look at each: -want +got:\n%s", diff)
	}
	w.fail(http.MethodGet, "configmaps")
	if diff := cmp.Diff(first, waiting(nil)); diff != "" {
		t.Errorf("expected a look at each object without the list: -want +got:\n%s", diff)
	}
}

// TestManyObjectsAreReadAsAWhole: metadata alone do not tell enough about some objects.
func TestManyObjectsAreReadAsAWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var prepared, namespaces []*entry
	for i := range 5 {
		e := w.create("ConfigMap", fmt.Sprint("a", i), "")
		w.parse("patchBeforeDelete: {data: {mode: down}}", &e.ManagedResourceStatus)
		namespace := w.create("Namespace", fmt.Sprint("NS-", i), "")
		w.patch(namespace, `status: {conditions: [{type: NamespaceContentRemaining, status: "True", reason: R,
    message: 2 widgets remain}]}`, "status")
		prepared, namespaces = append(prepared, e), append(namespaces, namespace)
	}
	w.mustFinish(w.deletion("", prepared...))
	if patches := strings.Count(strings.Join(w.requested(), " "), http.MethodPatch); patches != 5 {
		t.Errorf("expected each object to be changed before its deletion, but found %d changes", patches)
	}
	w.mustRun(w.deletion("", namespaces...))
	for _, text := range w.mustRun(w.deletion("", namespaces...)).Waiting {
		if !strings.Contains(text, "2 widgets remain") {
			t.Errorf("expected the obstacle in the namespace, but found %q", text)
		}
	}
}

// TestVersionIsNotServedAnyMore: an unknown path is no missing object.
func TestVersionIsNotServedAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, v1 := w.define("Thing", ""), w.kinds["Thing"]
	e := w.create("Thing", "a", "")
	w.mustRun(w.deletion("[{predefinedResourceGroup: {type: empty}}]", e)) // the client gets to know v1
	const version = "schema: {openAPIV3Schema: {type: object}}"
	w.patch(definition, "spec: {versions: [{name: v1, served: false, storage: true, "+version+"}, "+
		"{name: v2, served: true, storage: false, "+version+"}]}")
	w.Eventually("v1 not to be served", func() bool {
		_, err := w.Objects(v1).List(t.Context(), metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
	w.Eventually("the deletion to be complete", func() bool {
		result := w.mustRun(w.deletion("", e))
		return len(result.Waiting) == 0 && len(result.Gone) == 1
	})
	v1.Version = "v2"
	if names := w.Names(v1, ""); len(names) > 0 {
		t.Errorf("expected the object to be deleted in v2, but found %q", names)
	}
}

// TestAPIServerThatIsDown: an aggregated API server without an answer concerns its own objects and the next groups.
func TestAPIServerThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("APIService", "v1.NS.down.example.org", `spec: {group: NS.down.example.org, version: v1,
    groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true,
    service: {namespace: NS, name: nobody}}`)
	unreachable := &entry{}
	w.parse("resource: {apiVersion: NS.down.example.org/v1, kind: Thing, namespace: NS, name: t, uid: "+anotherUID+"}",
		&unreachable.ManagedResourceStatus)
	object, role := w.create("ConfigMap", "a", ""), w.create("ClusterRole", "NS-a", "")
	w.Eventually("the API server to say that it cannot tell", func() bool {
		_, err := w.run(w.deletion("", unreachable))
		return err != nil
	})
	for _, groups := range []string{"", `[{customResourceGroup: {resources: [
    {apiVersion: NS.down.example.org/v1, kind: things}, {apiVersion: v1, kind: ConfigMap}]}},
  {predefinedResourceGroup: {type: cluster-scoped-resources}}]`} {
		_, err := w.run(w.deletion(groups, unreachable, object, role))
		if err == nil || !strings.Contains(err.Error(), "delete Thing "+w.Namespace+"/t: ") || len(sdk.Codes(err)) > 0 {
			t.Errorf("expected a temporary error about the object, but found %v", err)
		}
		w.mustBe("gone", object)
		w.mustBe("there", role)
	}
}

func TestUnreachableTargetIsOneError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Requests.Fail(func(*http.Request) error { return errors.New("connection refused") })
	_, err := w.run(w.deletion("", w.create("ConfigMap", "a", ""), w.create("ClusterRole", "NS-a", "")))
	const once, about = "connection refused", "cannot reach target cluster"
	if err == nil || strings.Count(err.Error(), once) != 1 || !strings.Contains(err.Error(), about) {
		t.Errorf("expected one error about the target, but found %v", err)
	}
	if _, shown := errors.AsType[*url.Error](err); shown {
		t.Errorf("the error shows the URL: %v", err)
	}
}

func TestSeenIsWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := w.held(w.create("ConfigMap", "held", ""))
	result := w.mustRun(w.deletion("", w.create("ConfigMap", "gone", ""), held))
	if len(result.Seen) != 1 {
		t.Fatalf("expected one object to watch, but found %+v", result.Seen)
	}
	seen := result.Seen[0]
	if seen.Client != w.client || seen.Mapping.Resource != plugintest.ConfigMaps || seen.Key.Name != "held" ||
		seen.ResourceVersion != w.get(held).GetResourceVersion() {
		t.Errorf("expected the object as it was seen last, but found %+v", seen)
	}
}
