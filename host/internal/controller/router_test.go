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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// cached puts items into the cache of a router.
func (r *routed) cached(all ...*v1alpha1.DeployItem) {
	source := &itemcache.Source{}
	store := source.NewInformer(nil, &v1alpha1.DeployItem{}, 0, nil).GetIndexer()
	for _, item := range all {
		_ = store.Add(item) // which cannot fail for an item that has a name
	}
	r.cache = source
}

func typedItem(name string, itemType v1alpha1.DeployItemType) *v1alpha1.DeployItem {
	item := itemAt(types.UID("uid of "+name), "5")
	item.Name, item.Generation, item.Spec.Type = name, 1, itemType
	return item
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

	r.OnUpdate(typedItem("c", "two"), typedItem("c", "one"))
	expect(t, "an item of another type", r.one, "c")
	expect(t, "an item of another type", r.two)

	r.memory.idle(typedItem("c", "one"), hookMemory{})
	gone := typedItem("c", "one")
	gone.UID = "before"
	if r.OnDelete(gone); len(r.memory.entries) != 1 {
		t.Errorf("the deletion of an item has hit the next one of its name: %v", r.memory.entries)
	}
}

// TestUnservedTypes are logged once each, and their items counted, when it is known that nobody serves them.
func TestUnservedTypes(t *testing.T) {
	r := newRouted(t, true)
	var logged bytes.Buffer
	r.log = slog.New(slog.NewTextHandler(&logged, nil))
	items := []*v1alpha1.DeployItem{
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
	item := typedItem("c", "two")
	r.memory.idle(item, hookMemory{})
	if r.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "ns/c", Obj: item}); len(r.memory.entries) != 0 {
		t.Errorf("an item that is gone is remembered: %v", r.memory.entries)
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
	all := []*v1alpha1.DeployItem{
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
		var cached []*v1alpha1.DeployItem
		for _, i := range all {
			cached = append(cached, itemcache.Slim(i))
			r.memory.requeue(i, entry{jobMemory: jobMemory{plugin: "two", retries: 1}}, noon)
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
	there := withJob(typedItem("there-before", "one"))
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
	r.cached(withJob(typedItem("a", "one")), withJob(typedItem("b", "one")), withJob(typedItem("d", "two")))
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
	remember := func(name, version string, hooks hookMemory) *v1alpha1.DeployItem {
		known := scheduled(typedItem(name, "one"))
		known.ResourceVersion = version
		r.memory.idle(known, hooks)
		return scheduled(typedItem(name, "one"))
	}
	r.cached(
		remember("idle", "5", hookMemory{asked: asked}), remember("changed", "4", hookMemory{asked: asked}),
		scheduled(typedItem("unknown", "one")), remember("nobody-asked", "5", hookMemory{}),
		remember("scheduled", "5", hookMemory{asked: asked, again: noon.Add(time.Hour)}),
		remember("others-asked", "5", hookMemory{asked: "x"}), withJob(typedItem("job", "one")),
	)
	r.attach("one", r.one)
	expectSorted(
		t, "those for which there may be something to do", r.one, "changed", "job", "nobody-asked", "others-asked",
		"scheduled", "unknown",
	)
}

func withJob(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	item.Status.JobID = "1"
	return item
}

func scheduled(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(`{"continuousReconcile":{"every":"1h"}}`)}
	return item
}
