package collect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
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
	// holdings and collect replace what it does; nil for nothing special.
	holdings func(ctx context.Context) error
	collect  func(ctx context.Context, holdings []sdk.Holding) error

	mu        sync.Mutex
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
	kept := append([]sdk.Holding(nil), p.kept...)
	p.mu.Unlock()
	if p.holdings != nil {
		return kept, p.holdings(ctx)
	}
	return kept, nil
}

func (p *fakePlugin) Collect(ctx context.Context, holdings []sdk.Holding) error {
	p.mu.Lock()
	p.collected = append(p.collected, holdings)
	p.mu.Unlock()
	if p.collect != nil {
		return p.collect(ctx, holdings)
	}
	p.remove(holdings)
	return nil
}

func (p *fakePlugin) remove(holdings []sdk.Holding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.kept[:0:0]
	for _, h := range p.kept {
		gone := false
		for _, other := range holdings {
			gone = gone || h == other
		}
		if !gone {
			left = append(left, h)
		}
	}
	p.kept = left
}

func (p *fakePlugin) timesAsked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
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

// world is what there is of deploy items: in the cache, and in truth.
type world struct {
	cache.Cache
	cache.Informer

	mu      sync.Mutex
	cached  map[types.NamespacedName]*metav1.PartialObjectMetadata
	live    map[types.NamespacedName]*v1alpha1.DeployItem
	err     error // of live reads
	reads   int
	deleted []func(any)
}

func newWorld() *world {
	return &world{cached: map[types.NamespacedName]*metav1.PartialObjectMetadata{}, live: map[types.NamespacedName]*v1alpha1.DeployItem{}}
}

func (w *world) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return w, nil
}

func (w *world) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	w.deleted = append(w.deleted, handler.OnDelete)
	return nil, nil
}

func (w *world) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

func (w *world) Get(_ context.Context, name types.NamespacedName, object client.Object, _ ...client.GetOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	found, ok := w.cached[name]
	if !ok {
		return missing(name)
	}
	found.DeepCopyInto(object.(*metav1.PartialObjectMetadata))
	return nil
}

// liveReader reads the truth.
type liveReader struct {
	client.Reader

	world *world
}

func (r liveReader) Get(_ context.Context, name types.NamespacedName, object client.Object, _ ...client.GetOption) error {
	w := r.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads++
	if w.err != nil {
		return w.err
	}
	found, ok := w.live[name]
	if !ok {
		return missing(name)
	}
	found.DeepCopyInto(object.(*v1alpha1.DeployItem))
	return nil
}

// add adds an item with a job under way, which the cache knows of.
func (w *world) add(name, uid, jobID string) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: "1"}}
	item.Status.JobID, item.Status.Phase = jobID, v1alpha1.DeployItemPhaseProgressing
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live[client.ObjectKeyFromObject(item)] = item
	w.cached[client.ObjectKeyFromObject(item)] = &metav1.PartialObjectMetadata{ObjectMeta: item.ObjectMeta}
	return item
}

// finish ends the job of an item.
func (w *world) finish(item *v1alpha1.DeployItem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	item.Status.JobIDFinished, item.Status.Phase = item.Status.JobID, v1alpha1.DeployItemPhaseFailed
	item.ResourceVersion += "1"
	w.cached[client.ObjectKeyFromObject(item)].ResourceVersion = item.ResourceVersion
}

// remove removes an item, and tells who watches.
func (w *world) remove(item *v1alpha1.DeployItem, itemType v1alpha1.DeployItemType) {
	w.mu.Lock()
	delete(w.live, client.ObjectKeyFromObject(item))
	delete(w.cached, client.ObjectKeyFromObject(item))
	w.mu.Unlock()
	meta := &metav1.PartialObjectMetadata{ObjectMeta: item.ObjectMeta}
	if itemType != "" {
		meta.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(itemType)}
	}
	for _, deleted := range w.deleted {
		deleted(meta)
	}
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *world) timesRead() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads
}

func newMetadata() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} }

// collector returns one that is elected for all plugins.
func (w *world) collector(plugins ...*fakePlugin) *Collector {
	return New(Options{
		Cache: w, Live: liveReader{world: w}, NewMetadata: newMetadata,
		Plugins: func() []Plugin {
			var all []Plugin
			for _, p := range plugins {
				all = append(all, p)
			}
			return all
		},
		Elected:  func(string) bool { return true },
		Interval: time.Hour, Clock: clock.RealClock{}, Random: func() float64 { return 0.5 }, Log: slog.New(slog.DiscardHandler),
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
		gone := w.add("gone", "uid-1", "")
		w.add("stays", "uid-2", "")
		p := &fakePlugin{name: "one", itemType: "mine", kept: []sdk.Holding{holding("stays", "uid-2", ""), holding("gone", "uid-1", "")}}
		other := &fakePlugin{name: "two", itemType: "theirs"}
		run(t, w.collector(p, other))
		after(settleTime)
		p.expect(t, "at the start", 1)
		other.expect(t, "at the start", 1)

		w.remove(gone, "mine")
		after(settleTime - 1)
		p.expect(t, "before it has settled", 1)
		after(1)
		p.expect(t, "when it has settled", 2, []sdk.Holding{holding("gone", "uid-1", "")})
		after(minRetry)
		p.expect(t, "another look shows that it is gone", 3, []sdk.Holding{holding("gone", "uid-1", "")})
		after(10 * time.Minute)
		p.expect(t, "and no more are taken", 3, []sdk.Holding{holding("gone", "uid-1", "")})
		other.expect(t, "the item was none of its own", 1)

		w.remove(w.add("untyped", "uid-3", ""), "")
		after(settleTime)
		p.expect(t, "nobody knows whose item it was", 4, []sdk.Holding{holding("gone", "uid-1", "")})
		other.expect(t, "nobody knows whose item it was", 2)
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
	for name, tc := range map[string]struct {
		random float64
		want   time.Duration
	}{"shortest": {0, 54 * time.Minute}, "middle": {0.5, time.Hour}, "longest": {0.75, 63 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				p := &fakePlugin{name: "one"}
				c := w.collector(p)
				c.Random = func() float64 { return tc.random }
				run(t, c)
				after(settleTime)
				p.expect(t, "at the start", 1)
				after(tc.want - settleTime - time.Millisecond)
				p.expect(t, "before it is time", 1)
				after(2 * time.Millisecond)
				p.expect(t, "when it is time", 2)
				after(tc.want)
				p.expect(t, "again", 3)
			})
		})
	}
}

func TestElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := &fakePlugin{name: "one", itemType: "mine", kept: []sdk.Holding{holding("gone", "uid-1", "")}}
		var mu sync.Mutex
		elected := false
		c := w.collector(p)
		c.Elected = func(name string) bool {
			mu.Lock()
			defer mu.Unlock()
			return elected && name == "one"
		}
		run(t, c)
		w.remove(w.add("other", "uid-2", ""), "mine")
		after(2 * time.Hour)
		p.expect(t, "another replica does it", 0)
		mu.Lock()
		elected = true
		mu.Unlock()
		c.LookAgain()
		after(settleTime)
		p.expect(t, "this one does it", 1, []sdk.Holding{holding("gone", "uid-1", "")})
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
		fails := &fakePlugin{name: "fails", kept: gone, collect: func(context.Context, []sdk.Holding) error { return errors.New("it cannot") }}
		works := &fakePlugin{name: "works", kept: gone}
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
		if asked := fails.timesAsked(); asked < 20 || asked > 50 {
			t.Errorf("expected the pauses to grow up to %s, but it was asked %d times in five hours", maxRetry, asked)
		}
	})
}
