package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestPolicies takes an object with each policy through two jobs, the second with another manifest, and a deletion.
func TestPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ours, changed, theirs := object{"by": "us"}, object{"by": "us, again"}, object{"by": "them"}
	otherItem := object{owner.Label: "elsewhere.other"}
	for name, c := range map[string]struct {
		reason, policy string
		// existing: somebody has made the object before, with the labels.
		existing bool
		labels   object
		// data after the two jobs; nil if there is no object.
		first, second any
		managed, left bool
	}{
		"default":          {reason: "without a policy an object is managed", first: ours, second: changed, managed: true},
		"manage":           {reason: "it is created, updated and deleted", policy: "manage", first: ours, second: changed, managed: true},
		"manage-theirs":    {reason: "whoever has made it", policy: "manage", existing: true, first: ours, second: changed, managed: true},
		"manage-others":    {reason: "even another item", policy: "manage", existing: true, labels: otherItem, first: ours, second: changed, managed: true},
		"fallback":         {reason: "what nobody else has made is managed", policy: "fallback", first: ours, second: changed, managed: true},
		"fallback-theirs":  {reason: "what somebody has made is left to them", policy: "fallback", existing: true, first: theirs, second: theirs, left: true},
		"fallback-others":  {reason: "and so is what another item has made", policy: "fallback", existing: true, labels: otherItem, first: theirs, second: theirs, left: true},
		"keep":             {reason: "it is not deleted", policy: "keep", first: ours, second: changed, managed: true, left: true},
		"keep-theirs":      {reason: "it is updated, whoever has made it", policy: "keep", existing: true, first: ours, second: changed, managed: true, left: true},
		"immutable":        {reason: "it is not updated", policy: "immutable", first: ours, second: ours, managed: true},
		"immutable-theirs": {reason: "whoever has made it; but it is deleted", policy: "immutable", existing: true, first: theirs, second: theirs, managed: true},
		"ignore":           {reason: "it is not created", policy: "ignore"},
		"ignore-theirs":    {reason: "and what is there is left alone", policy: "ignore", existing: true, first: theirs, second: theirs, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			if c.existing {
				o := w.configMap(name, theirs)
				o["metadata"].(object)["labels"] = c.labels
				w.Create(configMaps, o)
			}
			of := func(data object) object {
				e := entry(w.configMap(name, data), nil)
				if c.policy != "" {
					e["policy"] = c.policy
				}
				return configOf(e)
			}
			item := w.itemOf(name, of(ours))
			w.mustSucceed(item)
			if diff := cmp.Diff(c.first, w.data(name)); diff != "" {
				t.Errorf("%s: after the first job: -want +got:\n%s", c.reason, diff)
			}
			w.SetConfig(item, of(changed))
			w.mustSucceed(item)
			if diff := cmp.Diff(c.second, w.data(name)); diff != "" {
				t.Errorf("%s: after the second job: -want +got:\n%s", c.reason, diff)
			}
			if got := len(w.managed(item)) == 1; got != c.managed {
				t.Errorf("%s: managed is %t", c.reason, got)
			}
			w.mustDelete(item)
			if got := w.Get(configMaps, name) != nil; got != c.left {
				t.Errorf("%s: left on the target is %t", c.reason, got)
			}
		})
	}
}

// TestPolicyOfAnOrphan takes objects out of the manifests, or sets their policy to ignore.
func TestPolicyOfAnOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := []object{
		entry(w.configMap("managed", nil), object{"policy": "manage"}), entry(w.configMap("kept", nil), object{"policy": "keep"}),
		entry(w.configMap("fixed", nil), object{"policy": "immutable"}), entry(w.configMap("ignored", nil), object{"policy": "manage"}),
		entry(w.configMap("fallback", nil), object{"policy": "fallback"}), entry(w.configMap("lost", nil), object{"policy": "fallback"}),
	}
	item := w.item(configOf(all...))
	w.mustSucceed(item)
	w.Patch(configMaps, "lost", `{"metadata":{"labels":null}}`)

	w.SetConfig(item, configOf(entry(w.configMap("ignored", nil), object{"policy": "ignore"})))
	w.mustTell(w.mustSucceed(item), "LeftOnTarget: ConfigMap "+w.Namespace+"/ignored stays on the target: its policy is ignore",
		"LeftOnTarget: ConfigMap "+w.Namespace+"/kept stays on the target: policy keep",
		"LeftOnTarget: ConfigMap "+w.Namespace+"/lost stays on the target: policy fallback")
	for name, left := range map[string]bool{"managed": false, "kept": true, "fixed": false, "ignored": true, "fallback": false, "lost": true} {
		if got := w.Get(configMaps, name) != nil; got != left {
			t.Errorf("%s: left on the target is %t", name, got)
		}
	}
	w.mustDelete(item)
	if w.Get(configMaps, "ignored") == nil {
		t.Error("an object with the policy ignore was deleted")
	}
}

func TestAnnotateBeforeCreate(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"update", "patch", "merge", "mergeOverwrite", "apply"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			of := func(value string, data object) object {
				settings := object{"annotateBeforeCreate": object{"example.org/made": value}}
				return with(configOf(entry(w.configMap("a", data), settings)), "updateStrategy", strategy)
			}
			item := w.item(of("by us", nil))
			w.mustSucceed(item)
			if got := w.MustGet(configMaps, "a").GetAnnotations()["example.org/made"]; got != "by us" {
				t.Errorf("after creation: found %q", got)
			}
			w.SetConfig(item, of("otherwise", object{"x": "y"}))
			w.mustSucceed(item)
			if got := w.MustGet(configMaps, "a"); got.GetAnnotations()["example.org/made"] != "by us" || got.Object["data"] == nil {
				t.Errorf("after an update: expected the annotation of the creation, but found %v", got.Object)
			}
			w.Create(configMaps, w.configMap("b", nil))
			w.SetConfig(item, with(configOf(entry(w.configMap("b", object{"x": "y"}), object{"annotateBeforeCreate": object{"made": "no"}})), "updateStrategy", strategy))
			w.mustSucceed(item)
			if got := w.MustGet(configMaps, "b").GetAnnotations(); len(got) > 0 {
				t.Errorf("an object that was there already: found %v", got)
			}
		})
	}
}

// TestBeforeDelete has what is to be done before a deletion done in a write of its own: of an orphan, and of the item's own deletion.
func TestBeforeDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := object{
		"annotateBeforeDelete": object{"example.org/confirmed": "true"},
		"patchBeforeDelete":    object{"data": object{"state": "going", "secret": nil}},
	}
	held := func(name string) object {
		o := w.configMap(name, object{"state": "here", "secret": "x"})
		o["metadata"].(object)["finalizers"] = []any{"example.org/hold"}
		return entry(o, settings)
	}
	item := w.item(configOf(held("orphan"), held("deleted")))
	w.mustSucceed(item)
	w.Requests.Take()

	w.SetConfig(item, configOf(held("deleted")))
	w.mustWait(w.Do(plugintest.Reconcile, item), "orphan")
	w.mustBePrepared("orphan")
	w.mustWait(w.Do(plugintest.Delete, item), "orphan")
	w.mustBePrepared("deleted")
	for _, name := range []string{"orphan", "deleted"} {
		w.Patch(configMaps, name, `{"metadata":{"finalizers":null}}`)
	}
	w.mustDelete(item)
	if got := w.Requests.Writes(); len(got) > 0 {
		t.Errorf("an object that is being deleted was written: %v", got)
	}
}

func (w *world) mustBePrepared(name string) {
	w.Helper()
	path := "/api/v1/namespaces/" + w.Namespace + "/configmaps/" + name
	if diff := cmp.Diff([]string{"PATCH " + path, "DELETE " + path}, w.Requests.Writes()); diff != "" {
		w.Errorf("%s: writes: -want +got:\n%s", name, diff)
	}
	o := w.MustGet(configMaps, name)
	if o.GetDeletionTimestamp() == nil || o.GetAnnotations()["example.org/confirmed"] != "true" {
		w.Errorf("%s: expected it to be annotated and then deleted, but found %v", name, o.Object["metadata"])
	}
	if diff := cmp.Diff(object{"state": "going"}, o.Object["data"]); diff != "" {
		w.Errorf("%s: data: -want +got:\n%s", name, diff)
	}
}

// TestPatchAfterDeployment: the patch comes when all is ready and exported, and only once.
func TestPatchAfterDeployment(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"update", "patch", "merge", "mergeOverwrite", "apply"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			patch := object{"patchAfterDeployment": object{"data": object{"state": "deployed", "once": nil}}}
			conf := configOf(entry(w.configMap("a", object{"state": "new", "once": "x"}), patch), entry(w.deployment("web", "nginx"), nil))
			conf = with(with(conf, "updateStrategy", strategy), "exports", []any{export("state", ".data.state", w.Namespace, "a")})
			item := w.item(conf)
			w.mustWait(w.Do(plugintest.Reconcile, item), "Deployment "+w.Namespace+"/web")
			if diff := cmp.Diff(object{"state": "new", "once": "x"}, w.data("a")); diff != "" {
				t.Errorf("before all is ready: -want +got:\n%s", diff)
			}
			w.ready("web")
			if diff := cmp.Diff(object{"state": "new"}, w.mustSucceed(item).Succeeded.Exports); diff != "" {
				t.Errorf("exports: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(object{"state": "deployed"}, w.data("a")); diff != "" {
				t.Errorf("after the deployment: -want +got:\n%s", diff)
			}
			w.Requests.Take()
			w.mustSucceed(item)
			if got := w.Requests.Writes(); len(got) > 0 {
				t.Errorf("a second job without a change wrote: %v", got)
			}
		})
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := func(items ...any) object { return object{"apiVersion": "v1", "kind": "List", "items": items} }
	for name, c := range map[string]struct {
		reason string
		list   object
		want   []string
	}{
		"some":  {reason: "a List stands for its items", list: list(w.configMap("some-a", nil), w.configMap("some-b", nil)), want: []string{"some-a", "some-b"}},
		"empty": {reason: "an empty one stands for nothing", list: object{"apiVersion": "v1", "kind": "List", "items": []any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			item := w.itemOf(name, configOf(entry(c.list, object{"policy": "keep", "annotateBeforeCreate": object{"made": "here"}})))
			w.mustSucceed(item)
			for _, o := range c.want {
				if w.MustGet(configMaps, o).GetAnnotations()["made"] != "here" {
					t.Errorf("%s: expected the settings of the entry to go for %s", c.reason, o)
				}
			}
			w.mustDelete(item)
			for _, o := range c.want {
				if w.Get(configMaps, o) == nil {
					t.Errorf("%s: expected the policy of the entry to go for %s", c.reason, o)
				}
			}
		})
	}
}

// TestDuplicates: an object that is there twice is found before anything is changed, also when only the target can tell.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	role := func(namespace string) object {
		return object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": object{"name": w.Namespace, "namespace": namespace}}
	}
	a := w.configMap("a", nil)
	for name, c := range map[string]struct {
		reason string
		config object
		where  string
	}{
		"plain": {reason: "twice the same", config: config(a, a), where: "manifests[1].manifest"},
		"policies": {
			reason: "an ignored one counts, or nobody could tell what is meant",
			config: configOf(entry(a, nil), entry(a, object{"policy": "ignore"})), where: "manifests[1].manifest",
		},
		"cluster-scoped": {
			reason: "a namespace makes no difference to a cluster-scoped object",
			config: config(a, role("x"), role("y")), where: "manifests[2].manifest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			w.Requests.Take()
			w.MustFail(w.Do(plugintest.Reconcile, w.itemOf(name, c.config)), plugintest.ConfigurationProblem, c.where, "is already in")
			for _, request := range w.Requests.Take() {
				if strings.HasPrefix(request, "POST") {
					t.Errorf("%s: a duplicate was found only after %s", c.reason, request)
				}
			}
		})
	}
}
