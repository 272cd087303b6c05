package controller

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// cached has the source of a router know some items.
func (r *routed) cached(items ...*metav1.PartialObjectMetadata) {
	known := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{usersIndex: usedBy})
	for _, item := range items {
		_ = known.Add(item) // which cannot fail for an item that has a name
	}
	r.source.known.Store(&itemIndex{known})
}

func typedItem(name string, itemType v1alpha1.DeployItemType) *metav1.PartialObjectMetadata {
	meta := itemMetadata("5")
	meta.Name, meta.UID = name, types.UID("uid of "+name)
	if itemType != "" {
		meta.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(itemType)}
	}
	return meta
}

// routed is a router of two plugins for the types one and two.
type routed struct {
	*router
	one, two priorityqueue.PriorityQueue[reconcile.Request]
}

func newRouted(t *testing.T, attach bool) *routed {
	t.Helper()
	newQueue := func(name string) priorityqueue.PriorityQueue[reconcile.Request] {
		q := priorityqueue.New[reconcile.Request](name)
		t.Cleanup(q.ShutDown)
		return q
	}
	plugins := &fakePlugins{serving: []*fakeDeployer{{name: "one", itemType: "one"}, {name: "two", itemType: "two"}}}
	r := &routed{one: newQueue("one"), two: newQueue("two")}
	r.router = newRouter(plugins, lock.Off{}, newMemory(), func() time.Time { return noon }, slog.New(slog.DiscardHandler))
	if attach {
		r.queues["one"], r.queues["two"] = r.one, r.two
	}
	return r
}

// next is the next item of a queue and its priority; it waits for one.
func next(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) (string, int) {
	t.Helper()
	request, priority, _ := q.GetWithPriority()
	q.Done(request)
	return request.Name, priority
}

// expect expects these names in this order, and then nothing.
func expect(t *testing.T, reason string, q priorityqueue.PriorityQueue[reconcile.Request], want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, queued(t, q)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

// expectSorted is expect for names that come in any order.
func expectSorted(t *testing.T, reason string, q priorityqueue.PriorityQueue[reconcile.Request], want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(queued(t, q)))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

// queued takes all items from a queue.
func queued(t *testing.T, q priorityqueue.PriorityQueue[reconcile.Request]) []string {
	t.Helper()
	q.AddWithOpts(
		priorityqueue.AddOpts{Priority: new(-1)}, reconcile.Request{NamespacedName: types.NamespacedName{Name: "end"}},
	)
	var got []string
	for {
		name, _ := next(t, q)
		if name == "end" {
			return got
		}
		got = append(got, name)
	}
}

func TestRouteByType(t *testing.T) {
	r := newRouted(t, true)
	r.OnAdd(typedItem("a", "one"), false)
	r.OnAdd(typedItem("b", "two"), false)
	r.OnAdd(typedItem("d", "nobody's"), false)
	expect(t, "the items of type one", r.one, "a")
	expect(t, "the items of type two", r.two, "b")

	item := itemAt("uid of c", "5")
	item.Name, item.Spec.Type = "c", "two"
	r.see(item)
	r.OnAdd(typedItem("c", ""), false)
	expect(t, "an item whose metadata does not say it", r.two, "c")
	r.OnUpdate(typedItem("c", ""), typedItem("c", "one"))
	expect(t, "what was seen counts more than what the metadata says", r.two, "c")

	item = itemAt("another", "6")
	item.Name, item.Spec.Type, item.Annotations = "c", "one", typedItem("c", "one").Annotations
	r.see(item)
	recreated := typedItem("c", "one")
	recreated.UID = "another"
	r.OnUpdate(typedItem("c", ""), recreated)
	expect(t, "a new item of the same name", r.one, "c")
	if expect(t, "a new item of the same name", r.two); len(r.types) != 0 {
		t.Errorf("remembered: %v", r.types)
	}

	item.UID, item.Annotations = "third", nil
	r.see(item)
	r.memory.arrived(item)
	r.OnDelete(recreated)
	if len(r.types) != 1 || len(r.memory.entries) != 1 {
		t.Errorf("the deletion of an item has hit the next one of its name: %v, %v", r.types, r.memory.entries)
	}
}

// TestUnservedTypes are logged once each, and their items counted, when it is known that nobody serves them.
func TestUnservedTypes(t *testing.T) {
	r := newRouted(t, true)
	var logged bytes.Buffer
	r.log = slog.New(slog.NewTextHandler(&logged, nil))
	items := []*metav1.PartialObjectMetadata{
		typedItem("a", "one"), typedItem("b", "nobody's"), typedItem("c", "nobody's"),
	}
	r.cached(items...)
	for _, started := range []bool{false, true} {
		r.plugins.(*fakePlugins).change(func(p *fakePlugins) { p.started = started })
		for _, item := range items {
			r.OnAdd(item, false)
		}
		count := r.countUnserved()
		want := 0
		if started {
			want = 2
		}
		if lines := strings.Count(logged.String(), "nobody's"); count != want || lines != want/2 {
			t.Errorf("plugins started: %t; counted %d, logged %d times", started, count, lines)
		}
	}
}

func TestRouteForgets(t *testing.T) {
	r := newRouted(t, true)
	item := itemAt("uid of c", "5")
	item.Name, item.Spec.Type = "c", "two"
	r.see(item)
	r.memory.idle(entry{item: item})

	r.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "ns/c", Obj: typedItem("c", "two")})
	if len(r.types) != 0 || len(r.memory.entries) != 0 {
		t.Errorf("an item that is gone is remembered: types %v, entries %v", r.types, r.memory.entries)
	}
	expect(t, "a worker that is busy with it may remember it again, and so reconciles it once more", r.two, "c")
}

// TestChangeReachesItsUsers: when a Target, a Context or the ConfigMap of a Context changes, the items are looked at that
// refer to it, whatever their annotations repeat.
func TestChangeReachesItsUsers(t *testing.T) {
	item := func(name, target, context string) *v1alpha1.DeployItem {
		return newDeployItem("ns", name, withTargetNamed(target), func(i *v1alpha1.DeployItem) {
			i.Spec.Type, i.Spec.Context = "one", context
			i.Annotations = contract.DeployerAnnotations(i)
		})
	}
	silent, elsewhere := item("silent", "a", ""), item("elsewhere", "a", "")
	lying := item("lying", "a", "")
	lying.Annotations[v1alpha1.DeployerTargetNameAnnotation] = "b"
	silent.Annotations, elsewhere.Namespace = nil, "elsewhere"
	none := item("none", "", "own")
	lying.Annotations["host.pergola.dev/context"] = "own" // which is the user's, and nobody reads it
	items := []*v1alpha1.DeployItem{
		item("a", "a", ""), item("b", "b", "own"), none, lying, item("named", "b", v1alpha1.DefaultContextName), silent,
		elsewhere,
	}
	contexts := newFakeAPI(t)
	for context, configMap := range map[string]string{"own": "places", "other": "others", "bare": ""} {
		o := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: context}}
		if configMap != "" {
			o.OCMConfig = &v1alpha1.LocalObjectReference{Name: configMap}
		}
		contexts.create(o)
	}
	for name, tc := range map[string]struct {
		kind, object string
		want         []string
	}{
		"ConfigMap":       {kindConfigMap, "places", []string{"b", "none"}},
		"no items":        {kindConfigMap, "others", nil},
		"no Context":      {kindConfigMap, "own", nil},
		"Target":          {kindTarget, "a", []string{"a", "lying", "silent"}},
		"another Target":  {kindTarget, "b", []string{"b", "named"}},
		"Context":         {kindContext, "own", []string{"b", "none"}},
		"default Context": {kindContext, v1alpha1.DefaultContextName, []string{"a", "lying", "named", "silent"}},
		"used by nobody":  {kindContext, "nobodys", nil},
	} {
		r := newRouted(t, true)
		var cached []*metav1.PartialObjectMetadata
		for _, i := range items {
			r.see(i)
			meta := slim(i)
			contract.NoteReferences(meta, i)
			cached = append(cached, meta)
			r.memory.requeue(entry{item: i, plugin: "two", retries: 1}, noon)
		}
		r.cached(cached...)
		references := &references{
			router: r.router, reader: contexts.admin, all: true, log: slog.New(slog.DiscardHandler),
		}
		changed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.object}}
		references.handler(t.Context(), tc.kind).OnUpdate(changed, changed)
		expectSorted(t, name, r.one, tc.want...)
		expectSorted(t, name+": jobs with an error", r.two, tc.want...)
	}
}

func TestPriorities(t *testing.T) {
	r := newRouted(t, true)
	there := typedItem("there-before", "one")
	r.OnAdd(there, true) // it is in the cache when the queue is filled
	r.cached(there)
	r.refill("one")
	r.OnAdd(typedItem("new", "one"), false)
	r.OnUpdate(typedItem("changed", "one"), typedItem("changed", "one"))
	r.WakeUp("one", "ns", "woken")
	r.one.AddWithOpts(
		priorityqueue.AddOpts{Priority: new(priorityPoll)},
		reconcile.Request{NamespacedName: types.NamespacedName{Name: "poll"}},
	)
	expect(
		t, "what has changed comes before what was there, and both before polls", r.one, "new", "changed", "woken",
		"there-before", "poll",
	)
}

func TestAttachReplays(t *testing.T) {
	r := newRouted(t, false)
	r.OnAdd(typedItem("a", "one"), false) // nobody listens yet
	r.types[types.NamespacedName{Namespace: "ns", Name: "b"}] = itemType{uid: "uid of b", name: "one"}
	r.cached(typedItem("a", "one"), typedItem("b", ""), typedItem("d", "two"))
	r.attach("one", r.one)
	expectSorted(t, "the items that were there before the queue", r.one, "a", "b")
	r.OnAdd(typedItem("e", "one"), false)
	expect(t, "those that come later", r.one, "e")
}

func TestAttachLeavesIdleItems(t *testing.T) {
	r := newRouted(t, false)
	one := r.plugins.(*fakePlugins).serving[0]
	one.capabilities.HookTypes = []string{string(sdkhook.ShouldReconcile)}
	one.hooks = func(
		context.Context, sdkhook.Type, *v1alpha1.DeployItem, *v1alpha1.Target,
	) ([]plugin.HookOutcome, error) {
		return nil, nil
	}
	const asked = "one=b"
	remember := func(name, version string, hooks hookMemory) *metav1.PartialObjectMetadata {
		item := typedItem(name, "one")
		r.memory.idleAt(client.ObjectKeyFromObject(item), entry{uid: item.UID, version: version, hooks: hooks})
		return item
	}
	r.cached(
		remember("idle", "5", hookMemory{asked: asked}), remember("changed", "4", hookMemory{asked: asked}),
		typedItem("unknown", "one"), remember("nobody-asked", "5", hookMemory{}),
		remember("scheduled", "5", hookMemory{asked: asked, again: noon.Add(time.Hour)}),
		remember("others-asked", "5", hookMemory{asked: "x"}),
	)
	r.attach("one", r.one)
	expectSorted(
		t, "those for which there may be something to do", r.one, "changed", "nobody-asked", "others-asked", "scheduled",
		"unknown",
	)
}
