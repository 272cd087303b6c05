package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/exports"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// peer is one of several replicas that share the item of a bench. What it knows of locks it hears when a test lets it.
type peer struct {
	*reconciler
	b      *bench
	locker *lock.Locker
	others *fakeReplicas
	reads  int // of deploy items, in full
	locks  int // requests to SyncObjects
	writes int // of deploy items
	// trouble is what comes of the writes of SyncObjects; see troubled.
	trouble trouble
	// written is called after each successful write of the item; nil for nothing.
	written func()
}

// fakeReplicas is what a peer believes of the replicas.
type fakeReplicas struct {
	podName string
	process int
	invalid bool
	rank    int
	dead    map[string]bool
	// processes has the process in each pod; nil if they are not known.
	processes map[string]string
	mu        sync.Mutex // for change
}

var _ lock.Membership = (*fakeReplicas)(nil)

func (r *fakeReplicas) PodName() string { return r.podName }
func (r *fakeReplicas) Process() string { return fmt.Sprintf("%s/%d", r.podName, r.process) }
func (r *fakeReplicas) Serve([]string)  {}

func (r *fakeReplicas) Valid() (valid bool) {
	r.change(func(r *fakeReplicas) { valid = !r.invalid })
	return valid
}

// Alone is false: there are others.
func (r *fakeReplicas) Alone() bool { return false }

func (r *fakeReplicas) Rank(string, string) (rank int) {
	r.change(func(r *fakeReplicas) { rank = r.rank })
	return rank
}

func (r *fakeReplicas) SeemsDead(podName, process string) (dead bool) {
	r.change(func(r *fakeReplicas) { dead = r.dead[podName] || r.processes != nil && r.processes[podName] != process })
	return dead
}

func (r *fakeReplicas) IsDead(_ context.Context, podName, process string) (bool, error) {
	return r.SeemsDead(podName, process), nil
}

// newPeer returns a replica with the plugin of a bench, whose writes go through the bench's.
func newPeer(b *bench, podName string) *peer {
	return newProcess(b, &fakeReplicas{podName: podName, dead: map[string]bool{}})
}

func newProcess(b *bench, others *fakeReplicas) *peer {
	p := &peer{b: b, others: others}
	r := b.parts
	r.options.Identity = others.podName
	api := interceptor.NewClient(b.admin, p.interceptors())
	r.items, r.exports = itemclient.New(client.WithFieldOwner(api, UserAgent), api), exports.New(api)
	p.locker = lock.New(lock.Options{API: api, Replicas: p.others, Listener: p, Metrics: lock.NewMetrics(), Log: r.log})
	r.locks = p.locker
	r.restart()
	p.reconciler = newReconciler(r)
	return p
}

// Freed implements lock.Listener.
func (p *peer) Freed(key lock.Key) { p.router.Freed(key) }

// Lost implements lock.Listener.
func (p *peer) Lost(key lock.Key) { p.router.Lost(key) }

// interceptors count the requests, and pass those about items on.
func (p *peer) interceptors() interceptor.Funcs {
	read := func(obj client.Object, do func() error) error {
		switch obj.(type) {
		case *v1alpha1.SyncObject:
			p.locks++
		case *v1alpha1.DeployItem:
			p.reads++
		}
		return do()
	}
	return intercept(read, func(obj client.Object, _ client.Patch, do func() error) error {
		switch obj.(type) {
		case *v1alpha1.SyncObject:
			p.locks++
			return p.troubled(do)
		case *v1alpha1.DeployItem:
			p.writes++
		}
		p.b.n++
		err := p.b.write(p.b.n, do)
		if _, isItem := obj.(*v1alpha1.DeployItem); isItem && err == nil && p.written != nil {
			p.written()
		}
		return err
	})
}

// reconcile reconciles the item once, and returns when the next time is due.
func (p *peer) reconcile(ctx context.Context) time.Duration {
	p.b.t.Helper()
	result, err := p.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p.b.item)})
	if err != nil {
		p.b.t.Errorf("%s: %v", p.others.podName, err)
	}
	return result.RequeueAfter
}

// hear lets a replica hear of the locks as they are.
func (p *peer) hear() {
	p.b.t.Helper()
	if object := p.b.lockObject(); object != nil {
		p.locker.Seen(object)
	}
}

// lockObject is the lock of the item; nil if there is none.
func (b *bench) lockObject() *v1alpha1.SyncObject {
	b.t.Helper()
	object := &v1alpha1.SyncObject{}
	key := client.ObjectKey{Namespace: b.item.Namespace, Name: "one-" + string(b.item.UID)}
	if err := b.admin.Get(b.t.Context(), key, object); err == nil {
		return object
	} else if client.IgnoreNotFound(err) != nil {
		b.t.Fatal(err)
	}
	return nil
}

// holder is the pod that holds the lock of the item.
func (b *bench) holder() string {
	b.t.Helper()
	if object := b.lockObject(); object != nil {
		return object.Spec.PodName
	}
	return ""
}

// queuedPeer is a replica that reconciles the item only when it is in its queue, as one does whose workers take from a
// queue.
type queuedPeer struct {
	*peer
	queue    *oneItemQueue
	deployer *intaketest.Deployer
	// seen is the item as the replica's cache has it; nil for none.
	seen atomic.Pointer[v1alpha1.DeployItem]
}

// newQueuedPeer gives a peer plugins and a queue of its own.
func newQueuedPeer(p *peer, deployer *intaketest.Deployer) *queuedPeer {
	r := &queuedPeer{peer: p, queue: &oneItemQueue{now: p.b.clock.Now}, deployer: deployer}
	p.set(func(parts *parts) {
		parts.plugin, parts.plugins = deployer, &intaketest.Plugins{Serve: []*intaketest.Deployer{deployer}}
		parts.cache = laggingCache{Reader: p.cache, of: r}
		parts.restart()
	})
	p.router.Attach(p.name, r.queue)
	return r
}

// oneItemQueue is the place of the one item of a bench in the queue of a plugin.
type oneItemQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	now func() time.Time
	due time.Time // zero if the item is not in the queue
}

func (q *oneItemQueue) AddAfter(_ reconcile.Request, after time.Duration) {
	if at := q.now().Add(after); q.due.IsZero() || at.Before(q.due) {
		q.due = at
	}
}

func (q *oneItemQueue) isDue() bool { return !q.due.IsZero() && !q.due.After(q.now()) }

// set makes the reconciler anew of changed parts.
func (p *peer) set(change func(*parts)) {
	parts := p.parts
	change(&parts)
	p.reconciler = newReconciler(parts)
}

// work reconciles the item if it is time. What goes wrong is tried again a second later.
func (r *queuedPeer) work() (worked bool) {
	r.b.t.Helper()
	if !r.queue.isDue() {
		return false
	}
	r.queue.due = time.Time{}
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r.b.item)}
	result, err := r.Reconcile(r.b.t.Context(), request)
	if err != nil {
		result.RequeueAfter = time.Second
	}
	if result.RequeueAfter > 0 {
		r.queue.AddAfter(request, result.RequeueAfter)
	}
	return true
}

// hearItem lets the replica hear of the item as it is.
func (r *queuedPeer) hearItem() {
	r.b.t.Helper()
	item := r.b.read()
	slim := itemcache.Slim(item)
	before := r.seen.Swap(slim)
	r.contents.Put(itemstate.Content{Item: item})
	switch {
	case before == nil:
		r.router.OnAdd(slim, false)
	case before.ResourceVersion != slim.ResourceVersion:
		r.router.OnUpdate(before, slim)
	}
}

// laggingCache has the item as its replica has heard of it.
type laggingCache struct {
	client.Reader
	of *queuedPeer
}

func (c laggingCache) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption,
) error {
	item, ok := object.(*v1alpha1.DeployItem)
	seen := c.of.seen.Load()
	if !ok || seen == nil {
		return c.Reader.Get(ctx, key, object, opts...)
	}
	*item = *seen
	return nil
}

// hearAll lets the replica hear of everything that has happened.
func (r *queuedPeer) hearAll() {
	r.b.t.Helper()
	r.hear()
	r.hearItem()
}

// setPlugin has the plugin of the replica run or not, and does what the controller does about it.
func (r *queuedPeer) setPlugin(runs bool) {
	plugins, _ := r.plugins.(*intaketest.Plugins)
	plugins.Change(func(p *intaketest.Plugins) { p.Down = map[string]bool{r.name: !runs} })
	r.router.PluginsRun(plugins.Running())
}

// runs reports whether the replica has a plugin that takes calls.
func (r *queuedPeer) runs() bool { return r.plugins.Running()[r.name] }

// trouble is what comes of a request that changes something.
type trouble string

const (
	noTrouble  trouble = ""
	refused    trouble = "refused"
	unanswered trouble = "unanswered" // but done
)

var errTrouble = errors.New("trouble with the API server")

// troubled does a write as far as the peer's trouble lets it.
func (p *peer) troubled(do func() error) error {
	switch p.trouble {
	case refused:
		return errTrouble
	case unanswered:
		_ = do() // what comes of it is not known here
		return errTrouble
	default:
		return do()
	}
}

// change changes what a peer believes; needed while it is in a call.
func (r *fakeReplicas) change(change func(*fakeReplicas)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// nextDue is the time of the next reconcile of some replicas; zero for none.
func nextDue(replicas ...*queuedPeer) time.Time {
	var dues []time.Time
	for _, r := range replicas {
		if !r.queue.due.IsZero() {
			dues = append(dues, r.queue.due)
		}
	}
	if len(dues) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(dues, time.Time.Compare)
}
