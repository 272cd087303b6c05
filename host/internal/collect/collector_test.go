package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fakePlugin keeps something until it is told to remove it.
type fakePlugin struct {
	name     string
	itemType v1alpha1.DeployItemType
	// holdings and collect are called in the middle of its functions; nil for nothing special.
	holdings func(ctx context.Context) error
	collect  func(holdings []sdk.Holding) error

	mu        sync.Mutex // guards what follows
	kept      []sdk.Holding
	asked     int
	collected [][]sdk.Holding
}

var _ Plugin = (*fakePlugin)(nil)

func (p *fakePlugin) Name() string { return p.name }

func (p *fakePlugin) Info() plugin.Info {
	return plugin.Info{Name: p.name, Types: []v1alpha1.DeployItemType{p.itemType}}
}

func (p *fakePlugin) Holdings(ctx context.Context) ([]sdk.Holding, error) {
	p.mu.Lock()
	p.asked++
	kept := slices.Clone(p.kept)
	p.mu.Unlock()
	if p.holdings != nil {
		return kept, p.holdings(ctx)
	}
	return kept, nil
}

func (p *fakePlugin) Collect(_ context.Context, holdings []sdk.Holding) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.collected = append(p.collected, holdings)
	if p.collect != nil {
		if err := p.collect(holdings); err != nil {
			return err
		}
	}
	p.kept = slices.DeleteFunc(p.kept, func(h sdk.Holding) bool { return slices.Contains(holdings, h) })
	return nil
}

func (p *fakePlugin) expect(t *testing.T, what string, asked int, collected ...[]sdk.Holding) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked != asked {
		t.Errorf("%s: expected %q to be asked %d times, but it was %d times", what, p.name, asked, p.asked)
	}
	if diff := cmp.Diff(collected, p.collected); diff != "" {
		t.Errorf("%s: what %q was told to remove (-want +got):\n%s", what, p.name, diff)
	}
}

// reader is the API server, or the cache.
type reader struct {
	client.Reader

	items map[types.NamespacedName]*v1alpha1.DeployItem
	err   error
	reads atomic.Int32
}

func (r *reader) Get(_ context.Context, name types.NamespacedName, object client.Object, _ ...client.GetOption) error {
	r.reads.Add(1)
	item := r.items[name]
	if read, ok := object.(*v1alpha1.DeployItem); ok && item != nil {
		item.DeepCopyInto(read)
	}
	if item == nil && r.err == nil {
		return apierrors.NewNotFound(deployItems, name.Name)
	}
	return r.err
}

// world is what there is of deploy items: in the cache, and in truth.
type world struct {
	cache.Cache
	cache.Informer

	cached, live *reader
	deleted      func(any)
}

func newWorld() *world {
	return &world{
		cached: &reader{items: map[types.NamespacedName]*v1alpha1.DeployItem{}},
		live:   &reader{items: map[types.NamespacedName]*v1alpha1.DeployItem{}},
	}
}

func (w *world) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return w, nil
}

func (w *world) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	w.deleted = handler.OnDelete
	return nil, nil
}

func (w *world) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

func (w *world) Get(
	ctx context.Context, name types.NamespacedName, object client.Object, opts ...client.GetOption,
) error {
	return w.cached.Get(ctx, name, object, opts...)
}

// add adds an item with a job under way, which the cache knows of.
func (w *world) add(name, uid, jobID string) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid)}}
	item.Status.JobID, item.Status.Phase = jobID, v1alpha1.DeployItemPhaseProgressing
	w.live.items[client.ObjectKeyFromObject(item)], w.cached.items[client.ObjectKeyFromObject(item)] = item, item
	return item
}

// finish ends the job of an item.
func finish(item *v1alpha1.DeployItem) {
	item.Status.JobIDFinished, item.Status.Phase = item.Status.JobID, v1alpha1.DeployItemPhaseFailed
}

// remove removes an item, and tells who watches.
func (w *world) remove(item *v1alpha1.DeployItem, itemType v1alpha1.DeployItemType) {
	delete(w.live.items, client.ObjectKeyFromObject(item))
	delete(w.cached.items, client.ObjectKeyFromObject(item))
	last := item.DeepCopy()
	last.Spec.Type = itemType
	w.deleted(last)
}

// collector returns one that is elected for all plugins.
func (w *world) collector(plugins ...*fakePlugin) *Collector {
	return New(Options{
		Cache: w, Live: w.live,
		Plugins: func() (all []Plugin) {
			for _, p := range plugins {
				all = append(all, p)
			}
			return all
		},
		Elected:  func(string) bool { return true },
		Interval: time.Hour, Random: func() float64 { return 0.5 },
		Log: slog.New(slog.DiscardHandler),
	})
}

// run starts a Collector in the bubble of a test, and ends it with the test.
func run(t *testing.T, c *Collector) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

// after lets some time pass in the bubble.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func holding(name, uid, jobID string) sdk.Holding {
	return sdk.Holding{Namespace: "ns", Name: name, UID: types.UID(uid), JobID: jobID}
}

func TestItemThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		item := w.add("gone", "uid-1", "")
		w.add("stays", "uid-2", "")
		gone := holding("gone", "uid-1", "")
		p := &fakePlugin{name: "one", itemType: "mine", kept: []sdk.Holding{holding("stays", "uid-2", ""), gone}}
		other := &fakePlugin{name: "two", itemType: "theirs"}
		run(t, w.collector(p, other))
		after(settleTime)
		p.expect(t, "at the start", 1)
		other.expect(t, "at the start", 1)

		w.remove(item, "mine")
		after(settleTime - 1)
		p.expect(t, "before it has settled", 1)
		after(1)
		p.expect(t, "when it has settled", 2, []sdk.Holding{gone})
		after(minRetry)
		p.expect(t, "another look shows that it is gone", 3, []sdk.Holding{gone})
		after(10 * time.Minute)
		p.expect(t, "and no more are taken", 3, []sdk.Holding{gone})
		other.expect(t, "the item was none of its own", 1)
	})
}

// Many events at once are one question.
func TestManyItemsAreGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := &fakePlugin{name: "one", itemType: "mine"}
		c := w.collector(p)
		run(t, c)
		after(settleTime)
		for i := range 1000 {
			w.remove(w.add(fmt.Sprint("item-", i), "uid", ""), "mine")
			c.JobEnded("one")
		}
		after(time.Minute)
		p.expect(t, "after all", 2)
	})
}

func TestInterval(t *testing.T) {
	t.Parallel()
	for random, want := range map[float64]time.Duration{0: 54 * time.Minute, 0.5: time.Hour, 0.75: 63 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			p := &fakePlugin{name: "one"}
			c := newWorld().collector(p)
			c.Random = func() float64 { return random }
			run(t, c)
			after(want - time.Millisecond)
			p.expect(t, "before it is time", 1)
			after(2 * time.Millisecond)
			p.expect(t, "when it is time", 2)
			after(want)
			p.expect(t, "again", 3)
		})
	}
}

func TestElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		gone := []sdk.Holding{holding("gone", "uid-1", "")}
		p := &fakePlugin{name: "one", itemType: "mine", kept: slices.Clone(gone)}
		var elected atomic.Bool
		c := w.collector(p)
		c.Elected = func(name string) bool { return name == "one" && elected.Load() }
		run(t, c)
		w.remove(w.add("other", "uid-2", ""), "mine")
		after(2 * time.Hour)
		p.expect(t, "another replica does it", 0)
		elected.Store(true)
		c.LookAgain()
		after(settleTime)
		p.expect(t, "this one does it", 1, gone)
	})
}

func TestTroubleOfOnePlugin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		gone := []sdk.Holding{holding("gone", "uid-1", "")}
		hangs := &fakePlugin{name: "hangs", holdings: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		down := &fakePlugin{name: "down", holdings: func(context.Context) error { return plugin.ErrNotRunning }}
		cannot := func([]sdk.Holding) error { return errors.New("it cannot") }
		fails := &fakePlugin{name: "fails", kept: slices.Clone(gone), collect: cannot}
		works := &fakePlugin{name: "works", kept: slices.Clone(gone)}
		run(t, w.collector(hangs, down, fails, works))
		after(settleTime)
		works.expect(t, "although the others fail", 1, gone)
		fails.expect(t, "first", 1, gone)
		after(minRetry)
		fails.expect(t, "after a pause", 2, gone, gone)
		down.expect(t, "after a pause", 2)
		after(minRetry)
		fails.expect(t, "the pauses grow", 2, gone, gone)
		after(minRetry)
		fails.expect(t, "the pauses grow", 3, gone, gone, gone)
		hangs.expect(t, "it is waited for", 1)
		after(callTimeout)
		hangs.expect(t, "not for ever", 2)
		after(5 * time.Hour)
		fails.mu.Lock()
		defer fails.mu.Unlock()
		if fails.asked < 20 || fails.asked > 50 {
			t.Errorf("expected the pauses to grow up to %s, but it was asked %d times in five hours", maxRetry, fails.asked)
		}
	})
}
