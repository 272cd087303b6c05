package controller

import (
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queuedPeer is a replica that reconciles the item only when it is in its queue, as one does whose workers take from a
// queue.
type queuedPeer struct {
	*peer
	queue    *oneItemQueue
	deployer *fakeDeployer
	// seen is the item as the replica has heard of it last; nil if it has not.
	seen *metav1.PartialObjectMetadata
}

// newQueuedPeer gives a peer plugins and a queue of its own.
func newQueuedPeer(p *peer, deployer *fakeDeployer) *queuedPeer {
	r := &queuedPeer{peer: p, queue: &oneItemQueue{now: p.b.clock.Now}, deployer: deployer}
	p.plugin, p.plugins = deployer, &fakePlugins{serving: []*fakeDeployer{deployer}}
	p.router.plugins = p.plugins
	p.router.queues[p.name] = r.queue
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
	meta := NewMetadata()
	if err := r.b.admin.Get(r.b.t.Context(), client.ObjectKeyFromObject(r.b.item), meta); err != nil {
		r.b.t.Fatal(err)
	}
	if _, err := Slim(meta); err != nil {
		r.b.t.Fatal(err)
	}
	before := r.seen
	r.seen = meta
	switch {
	case before == nil:
		r.router.OnAdd(meta, true)
	case before.ResourceVersion != meta.ResourceVersion:
		r.router.OnUpdate(before, meta)
	}
}

// hearAll lets the replica hear of everything that has happened.
func (r *queuedPeer) hearAll() {
	r.b.t.Helper()
	r.hear()
	r.hearItem()
}

// setPlugin has the plugin of the replica run or not, and does what the controller does about it.
func (r *queuedPeer) setPlugin(runs bool) {
	plugins, _ := r.plugins.(*fakePlugins)
	plugins.change(func(p *fakePlugins) { p.down = map[string]bool{r.name: !runs} })
	r.router.pluginsRun(plugins.Running())
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

// nextDue is when the first of some replicas reconciles again; zero if nobody does.
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
