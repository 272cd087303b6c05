package intake_test

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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// cached puts items into the cache of a router.
func (r *routed) cached(all ...*v1alpha1.DeployItem) {
	source := &itemcache.Source{}
	store := source.NewInformer(nil, &v1alpha1.DeployItem{}, 0, nil).GetIndexer()
	for _, item := range all {
		_ = store.Add(item) // which cannot fail for an item that has a name
	}
	r.Items = source
}

func typedItem(name string, itemType v1alpha1.DeployItemType) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid of " + name), ResourceVersion: "5", Generation: 1,
		},
		Spec: v1alpha1.DeployItemSpec{Type: itemType},
	}
}

var noon = time.Date(2024, time.March, 14, 12, 0, 0, 0, time.UTC)

// newTestRouter returns a Router for plugins, at noon, without other replicas.
func newTestRouter(plugins ...*intaketest.Deployer) *intake.Router {
	return intake.NewRouter(intake.Options{
		Plugins: &intaketest.Plugins{Serve: plugins}, Locks: lock.Off{}, Memory: itemstate.NewMemory(),
		Items: &itemcache.Source{}, Rules: contract.Rules{Now: func() time.Time { return noon }},
		Log: slog.New(slog.DiscardHandler),
	})
}

// routed is a router of two plugins for the types one and two.
type routed struct {
	*intake.Router
	one, two priorityqueue.PriorityQueue[reconcile.Request]
}

func newRouted(t *testing.T, attach bool) *routed {
	t.Helper()
	newQueue := func(name string) priorityqueue.PriorityQueue[reconcile.Request] {
		q := priorityqueue.New[reconcile.Request](name)
		t.Cleanup(q.ShutDown)
		return q
	}
	r := &routed{one: newQueue("one"), two: newQueue("two")}
	r.Router = newTestRouter(
		&intaketest.Deployer{PluginName: "one", Type: "one"}, &intaketest.Deployer{PluginName: "two", Type: "two"},
	)
	if attach {
		r.Attach("one", r.one)
		r.Attach("two", r.two)
	}
	return r
}

// expect expects these names in a queue, in any order, and no other.
func expect(t *testing.T, reason string, q priorityqueue.PriorityQueue[reconcile.Request], want ...string) {
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
		request, _ := q.Get()
		q.Done(request)
		if request.Name == "end" {
			return got
		}
		got = append(got, request.Name)
	}
}

// Rule (architecture.md#the-way-of-a-deployitem): An item is carried out by the plugin that serves its type.
func TestRouteByType(t *testing.T) {
	r := newRouted(t, true)
	r.OnAdd(typedItem("a", "one"), false)
	r.OnAdd(typedItem("b", "two"), false)
	r.OnAdd(typedItem("d", "unserved"), false)
	expect(t, "the items of type one", r.one, "a")
	expect(t, "the items of type two", r.two, "b")

	r.OnUpdate(typedItem("c", "two"), typedItem("c", "one"))
	expect(t, "an item of another type", r.one, "c")
	expect(t, "an item of another type", r.two)

	r.Memory.SetIdle(typedItem("c", "one"), itemstate.Hooks{})
	gone := typedItem("c", "one")
	gone.UID = "before"
	if r.OnDelete(gone); r.Memory.Size() != 1 {
		t.Errorf("the deletion of an item has hit the next one of its name: %d", r.Memory.Size())
	}
	expect(t, "that item is reconciled", r.one, "c")
	gone.UID = typedItem("c", "one").UID
	if r.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "ns/c", Obj: gone}); r.Memory.Size() != 0 {
		t.Errorf("an item that is gone is remembered: %d", r.Memory.Size())
	}
	expect(t, "a worker that is busy with it may remember it again, and so reconciles it once more", r.one, "c")
}

// TestUnservedTypes are logged once each, and their items counted, when it is known that no plugin serves them.
func TestUnservedTypes(t *testing.T) {
	r := newRouted(t, true)
	var logged bytes.Buffer
	r.Log = slog.New(slog.NewTextHandler(&logged, nil))
	items := []*v1alpha1.DeployItem{
		typedItem("a", "one"), typedItem("b", "unserved"), typedItem("c", "unserved"),
	}
	r.cached(items...)
	for _, started := range []bool{false, true} {
		r.Plugins.(*intaketest.Plugins).Change(func(p *intaketest.Plugins) { p.AllStarted = started })
		for _, item := range items {
			r.OnAdd(item, false)
		}
		count := r.CountUnserved()
		want := 0
		if started {
			want = 2
		}
		if lines := strings.Count(logged.String(), "unserved"); count != want || lines != want/2 {
			t.Errorf("plugins started: %t; counted %d, logged %d times", started, count, lines)
		}
	}
}

// TestChangeReachesItsUsers: after a change of a Target, a Context or the ConfigMap of a Context its users are looked
// at, whatever their annotations repeat.
// Rule (deploy-items.md#targets): A change of a Target or a Context has the items with a reference to it reconciled,
// and no others.
// Rule (host-configuration.md#the-configmap-of-a-context): A change of the ConfigMap in `ocmConfig` of a Context has
// the items of that Context reconciled.
func TestChangeReachesItsUsers(t *testing.T) {
	item := func(name, target, context string) *v1alpha1.DeployItem {
		i := typedItem(name, "one")
		i.Spec.Context, i.Spec.Target = context, &v1alpha1.ObjectReference{Name: target, Namespace: i.Namespace}
		i.Annotations = contract.DeployerAnnotations(i)
		return i
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
	contexts, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	for context, configMap := range map[string]string{"own": "places", "other": "others", "bare": ""} {
		o := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: context}}
		if configMap != "" {
			o.OCMConfig = &v1alpha1.LocalObjectReference{Name: configMap}
		}
		if err := contexts.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		kind, object string
		want         []string
	}{
		"ConfigMap":       {intake.KindConfigMap, "places", []string{"b", "none"}},
		"no items":        {intake.KindConfigMap, "others", nil},
		"no Context":      {intake.KindConfigMap, "own", nil},
		"Target":          {itemcache.KindTarget, "a", []string{"a", "lying", "silent"}},
		"another Target":  {itemcache.KindTarget, "b", []string{"b", "named"}},
		"Context":         {itemcache.KindContext, "own", []string{"b", "none"}},
		"default Context": {itemcache.KindContext, v1alpha1.DefaultContextName, []string{"a", "lying", "named", "silent"}},
		"unused":          {itemcache.KindContext, "unused", nil},
	} {
		r := newRouted(t, true)
		var cached []*v1alpha1.DeployItem
		for _, i := range all {
			cached = append(cached, itemcache.Slim(i))
			r.Memory.Requeue(i, itemstate.Entry{Job: itemstate.Job{Plugin: "two", Progress: job.Progress{Retries: 1}}}, noon)
		}
		r.cached(cached...)
		references := &intake.References{Router: r.Router, Reader: contexts, All: true, Log: slog.New(slog.DiscardHandler)}
		changed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: tc.object}}
		intake.Handler(t.Context(), references, tc.kind).OnUpdate(changed, changed)
		expect(t, name, r.one, tc.want...)
		expect(t, name+": jobs with an error", r.two, tc.want...)
	}
}

// TestHolderGone: after the end of an item those that need what it has held go on.
func TestHolderGone(t *testing.T) {
	r := newRouted(t, true)
	holder, needing := typedItem("holder", "one"), typedItem("needing", "one")
	contract.Fail(needing, false, contract.Error{Held: contract.Held{
		By: client.ObjectKeyFromObject(holder), What: "release a",
	}}, noon)
	r.cached(itemcache.Slim(needing), itemcache.Slim(typedItem("other", "one")))
	r.Memory.Requeue(needing, itemstate.Entry{Job: itemstate.Job{Plugin: "two", Progress: job.Progress{Retries: 1}}}, noon)
	var repaired []types.NamespacedName
	r.Repaired = func(items []types.NamespacedName) { repaired = items }
	r.OnDelete(holder)
	expect(t, "jobs that wait", r.two, "needing")
	if len(repaired) != 1 || repaired[0].Name != "needing" {
		t.Errorf("failed items: found %v", repaired)
	}
	if got := r.Items.Marked("ns.needing"); got == nil || got.Name != "needing" || r.Items.Marked("ns.missing") != nil {
		t.Errorf("found by its mark: %v", got)
	}
}

func TestPriorities(t *testing.T) {
	r := newRouted(t, true)
	there := withJob(typedItem("there-before", "one"))
	r.OnAdd(there, true) // it is in the cache when the queue is filled
	r.cached(there)
	r.Refill("one")
	r.OnAdd(typedItem("new", "one"), false)
	r.OnUpdate(typedItem("changed", "one"), typedItem("changed", "one"))
	r.WakeUp("one", "ns", "woken")
	r.one.AddWithOpts(
		priorityqueue.AddOpts{Priority: new(intake.PriorityPoll)},
		reconcile.Request{NamespacedName: types.NamespacedName{Name: "poll"}},
	)
	if diff := cmp.Diff([]string{"new", "changed", "woken", "there-before", "poll"}, queued(t, r.one)); diff != "" {
		t.Errorf("what has changed comes before what was there, and both before polls (-want +got):\n%s", diff)
	}
}

// A wake-up is for the job of its item, or else about the health of the deployed objects. One during the last run of
// a job may be for both.
func TestWoken(t *testing.T) {
	job := withJob(typedItem("a", "one"))
	begin := func(r *routed) { r.Memory.Begin(job, itemstate.Entry{}, "one") }
	for name, tc := range map[string]struct {
		before      func(*routed)
		woken, last bool
	}{
		"no job":                  {func(*routed) {}, true, false},
		"a job":                   {begin, false, true},
		"a job of another plugin": {func(r *routed) { r.Memory.Begin(job, itemstate.Entry{}, "two") }, true, false},
		"a finished job":          {func(r *routed) { begin(r); r.Memory.SetIdle(job, itemstate.Hooks{}) }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, woken := newRouted(t, true), false
			r.Woken = func(types.NamespacedName) { woken = true }
			tc.before(r)
			r.WakeUp("one", "ns", "a")
			if last := r.Memory.SetIdle(job, itemstate.Hooks{}); woken != tc.woken || last != tc.last {
				t.Errorf("expected %t and %t, but found %t and %t", tc.woken, tc.last, woken, last)
			}
		})
	}
}

var itemKey = types.NamespacedName{Namespace: "ns", Name: "a"}

func TestAttachReplays(t *testing.T) {
	r := newRouted(t, false)
	r.OnAdd(typedItem("a", "one"), false) // there is no queue yet
	r.cached(withJob(typedItem("a", "one")), withJob(typedItem("b", "one")), withJob(typedItem("d", "two")))
	r.Attach("one", r.one)
	expect(t, "the items that were there before the queue", r.one, "a", "b")
	r.OnAdd(typedItem("e", "one"), false)
	expect(t, "those that come later", r.one, "e")
}

func TestAttachLeavesIdleItems(t *testing.T) {
	r := newRouted(t, false)
	one := r.Plugins.(*intaketest.Plugins).Serve[0]
	one.Capabilities.HookTypes = []string{string(sdkhook.ShouldReconcile)}
	one.OnHooks = func(context.Context, plugin.HookCall) ([]plugin.HookOutcome, error) {
		return nil, nil
	}
	const asked = "one=b"
	remember := func(name, version string, hooks itemstate.Hooks) *v1alpha1.DeployItem {
		known := scheduled(typedItem(name, "one"))
		known.ResourceVersion = version
		r.Memory.SetIdle(known, hooks)
		return scheduled(typedItem(name, "one"))
	}
	r.cached(
		remember("idle", "5", itemstate.Hooks{Asked: asked}), remember("changed", "4", itemstate.Hooks{Asked: asked}),
		scheduled(typedItem("unknown", "one")), remember("not-asked", "5", itemstate.Hooks{}),
		remember("scheduled", "5", itemstate.Hooks{Asked: asked, Again: noon.Add(time.Hour)}),
		remember("others-asked", "5", itemstate.Hooks{Asked: "x"}), withJob(typedItem("job", "one")),
	)
	r.Attach("one", r.one)
	expect(
		t, "those for which there may be something to do", r.one, "changed", "job", "not-asked", "others-asked",
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

// TestWakeUpsAreNotLost: a job is due earlier than it says if it is woken, while it is being worked on or afterwards.
func TestWakeUpsAreNotLost(t *testing.T) {
	hour := noon.Add(time.Hour)
	waiting := itemstate.Entry{Job: itemstate.Job{Progress: job.Progress{Due: hour}}}
	forPlugin, failed := waiting, waiting
	forPlugin.WaitsFor, failed.Retries = "p", 4
	wakes := func(plugin string) func(*intake.Router) {
		return func(r *intake.Router) { r.Memory.Wake(itemKey, plugin, noon) }
	}
	runs := func(plugin string) func(*intake.Router) {
		return func(r *intake.Router) { r.PluginsRun(map[string]bool{plugin: true}) }
	}
	hooks := func(r *intake.Router) { r.HTTPHooksChanged([]v1alpha1.DeployItemType{"one"}) }
	none := func(*intake.Router) {}
	for name, tc := range map[string]struct {
		reason        string
		during, after func(*intake.Router)
		ends          itemstate.Entry
		want          time.Time
	}{
		"no wake-up": {"the plugin's hint counts", none, none, waiting, hour},
		"meanwhile":  {"between the call and its note", wakes("p"), none, waiting, noon.Add(contract.MinPoll)},
		"right afterwards": {
			"a plugin that wakes all the time gets no worker of its own", none, wakes("p"), waiting, noon.Add(contract.MinPoll),
		},
		"of another one":   {"a plugin wakes its own items", wakes("q"), none, waiting, hour},
		"plugin runs":      {"that is what the job waits for", none, runs("p"), forPlugin, noon},
		"plugin runs, but": {"the job waits for something else", runs("p"), runs("p"), waiting, hour},
		"other plugin":     {"not the one that it waits for", none, runs("q"), forPlugin, hour},
		"after an error":   {"what has changed may have been the cause", none, hooks, failed, noon},
		"without an error": {"what has changed was not the cause", none, hooks, waiting, hour},
	} {
		r := newTestRouter(&intaketest.Deployer{PluginName: "p", Type: "one"})
		item, woken := typedItem("a", "one"), itemstate.Job{Progress: job.Progress{WaitsFor: "p"}, Woken: true}
		begun := r.Memory.Begin(item, itemstate.Entry{Job: woken}, "p")
		tc.during(r)
		tc.ends.Plugin = begun.Plugin
		r.Memory.Requeue(item, tc.ends, noon)
		tc.after(r)
		known := r.Memory.Recall(itemKey, "uid of a")
		if !known.Due.Equal(tc.want) || begun.Woken || begun.WaitsFor != "" {
			t.Errorf("%s: %s: expected it to be due at %s, but found %s", name, tc.reason, tc.want, known.Due)
		}
		if due := r.Memory.Requeue(item, r.Memory.Begin(item, known, "p"), noon); due.Before(known.Due) {
			t.Errorf("%s: a wake-up counts once, but the next step was woken again", name)
		}
	}
}
