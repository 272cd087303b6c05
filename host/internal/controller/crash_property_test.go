package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// poisonTest is a host with some items of one plugin. Some of them are poison: the plugin dies of their calls.
type poisonTest struct {
	*bench
	history
	t      *rapid.T
	items  []*v1alpha1.DeployItem
	poison map[string]bool // by name
	// inCall are the items in a call, and whether each counts as poison.
	inCall map[string]calledItem
	queues map[types.NamespacedName]*oneItemQueue
	// process is that of the plugin, which has been started that often; beside says which ended with several calls.
	process int
	beside  map[int]bool
}

type calledItem struct {
	poison  bool // it counts as poison
	process int
}

// call is the plugin. In the middle of a call others begin and end; with its process all calls end.
func (w *poisonTest) call(
	_ context.Context, _ plugin.Operation, c plugin.Call, _ plugin.Observer,
) (*plugin.Outcome, error) {
	name, counted, process := c.DeployItem.Name, contract.IsPoison(c.DeployItem), w.process
	w.note("%s is in its call, poison: %t", name, counted)
	for other, also := range w.inCall {
		if counted && also.poison {
			w.fail("%s and %s are poison and both in a call", other, name)
		}
	}
	w.inCall[name] = calledItem{poison: counted, process: process}
	for rapid.IntRange(0, 2).Draw(w.t, "more in the middle") > 0 && w.work() {
		continue
	}
	delete(w.inCall, name)
	if w.poison[name] && w.process == process {
		w.beside[process] = slices.ContainsFunc(slices.Collect(maps.Values(w.inCall)), func(call calledItem) bool {
			return call.process == process
		})
		w.process++
		w.router.PluginsRun(map[string]bool{w.name: true})
	}
	if w.process != process {
		w.note("the call of %s has crashed, beside others: %t", name, w.beside[process])
		if w.beside[process] {
			return nil, fmt.Errorf("%w %w", plugin.ErrCrashed, plugin.ErrBeside)
		}
		return nil, plugin.ErrCrashed
	}
	w.note("the call of %s has succeeded", name)
	return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
}

// testQueue is the queue of the plugin.
type testQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	*poisonTest
}

func (q testQueue) AddAfter(request reconcile.Request, after time.Duration) {
	q.queues[request.NamespacedName].AddAfter(request, after)
}

// work reconciles one of the items whose time has come, if there is one that no worker is at.
func (w *poisonTest) work() bool {
	var due []*v1alpha1.DeployItem
	for _, item := range w.items {
		if _, inCall := w.inCall[item.Name]; !inCall && w.queues[client.ObjectKeyFromObject(item)].isDue() {
			due = append(due, item)
		}
	}
	if len(due) == 0 {
		return false
	}
	if rapid.IntRange(0, 9).Draw(w.t, "a new job") == 0 { // which is not counted
		innocent := w.items[len(w.items)-1]
		w.note("%s gets a new job", innocent.Name)
		w.api.setJob(innocent, w.clock.Now())
		w.queues[client.ObjectKeyFromObject(innocent)].due = w.clock.Now()
	}
	item := rapid.SampledFrom(due).Draw(w.t, "item")
	w.queues[client.ObjectKeyFromObject(item)].due = time.Time{}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item)}
	result, err := w.Reconcile(w.bench.t.Context(), request)
	if err != nil {
		w.fail("%s: %v", item.Name, err)
	}
	if result.RequeueAfter > 0 {
		w.queues[request.NamespacedName].AddAfter(request, result.RequeueAfter)
	}
	return true
}

// TestOnlyPoisonIsConvicted: items that kill the plugin fail, and the others succeed: each of the former hits an
// innocent item at most once, which counts for little. They come to their ends soon, although they are reconciled only
// when they are in the queue.
// Rule (SECURITY.md#authors-of-items): Crashes of one item do not fail other items.
func TestOnlyPoisonIsConvicted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &poisonTest{
			bench: newBench(t, nil, withoutTimeout), history: history{t: rt}, t: rt, poison: map[string]bool{},
			inCall: map[string]calledItem{}, beside: map[int]bool{},
		}
		w.queues = map[types.NamespacedName]*oneItemQueue{}
		w.set(func(p *parts) { p.slots = slots.New(rapid.IntRange(1, 4).Draw(rt, "slots"), 0, w.clock.Now) })
		w.router.Attach(w.name, testQueue{poisonTest: w})
		w.plugin.OnCall = w.call
		poisons := rapid.IntRange(1, 2*job.DefaultMaxCrashes).Draw(rt, "poisons")
		for n := range poisons + rapid.IntRange(1, 5).Draw(rt, "innocents") {
			item := newDeployItem(w.item.Namespace, fmt.Sprint("item-", n), withoutTimeout)
			w.create(item)
			w.poison[item.Name] = n < poisons
			w.api.setJob(item, w.clock.Now())
			w.items = append(w.items, item)
			w.queues[client.ObjectKeyFromObject(item)] = &oneItemQueue{now: w.clock.Now, due: w.clock.Now()}
		}
		for start := w.clock.Now(); w.clock.Since(start) < slotPoll/2; w.clock.Step(contract.MinPoll) {
			for w.work() {
				continue
			}
		}
		for _, item := range w.items {
			fresh := w.api.read(item)
			convicted := fresh.Status.LastError != nil && fresh.Status.LastError.Reason == contract.ReasonPluginCrashed
			if fresh.Status.JobID != fresh.Status.JobIDFinished || convicted != w.poison[item.Name] {
				w.fail("%s: poison %t, but %s", item.Name, w.poison[item.Name], describe(fresh))
			}
		}
		if w.slots.Used()+w.slots.Waiting() > 0 || !w.slots.Acquire(anotherItem, slots.Poison, slots.Running) {
			w.fail("left behind: %+v", w.slots)
		}
	})
}
