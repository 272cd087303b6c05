package replica

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrReplaced means that the own pod is gone or has finished, or that another process has the own Lease. The host must end.
var ErrReplaced = errors.New("this replica was replaced: its pod is gone, or another process runs under the pod's name")

// Options are the settings of a replica.
type Options struct {
	// Config is of the cluster that the host's pods run in. Its limits of requests are not heeded: a renewal must not wait. Required.
	Config *rest.Config
	// Namespace and PodName are those of the own pod. Required.
	Namespace, PodName string
	// Group are the replicas that share work with each other: any string. May be empty, which is a group as any other.
	Group string
	// LeaseDuration is how long a replica counts as alive for the others after they saw its last renewal, at least a second. It is
	// renewed each third of it, and the replica counts itself as lapsed after two thirds. Required.
	LeaseDuration time.Duration
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// Log takes the replica's records. Defaults to none.
	Log *slog.Logger
}

func (o *Options) complete() error {
	switch {
	case o.Config == nil:
		return errors.New("the cluster of the host's pods is not given")
	case o.Namespace == "" || o.PodName == "":
		return errors.New("the own pod is not known: set MY_POD_NAME and MY_POD_NAMESPACE by the downward API")
	case o.LeaseDuration < time.Second:
		return fmt.Errorf("lease duration %s is less than a second", o.LeaseDuration)
	}
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return nil
}

// Replicas is what a replica knows of itself and of the others, kept up to date from the cluster.
type Replicas struct {
	*View
	keeper *keeper
	finder *finder
	watch  *watch
	log    *slog.Logger
}

// Join makes this process a replica: it takes the Lease of its pod over, whoever had it, and watches pods and Leases. It blocks until it
// knows of all that are there; if it is not allowed to list them, until ctx ends. After that ctx is not used any more. A Replicas must
// be Run, with an ended context if need be: Run stops what Join has started.
func Join(ctx context.Context, o Options) (*Replicas, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c, err := connect(o.Config)
	if err != nil {
		return nil, err
	}
	uid, err := readPod(ctx, c.client, o)
	if err != nil {
		return nil, err
	}
	self := Self{PodName: o.PodName, PodUID: uid, Process: newProcess(o.PodName), Group: o.Group, LeaseDuration: o.LeaseDuration}
	queue := newQueue(o.LeaseDuration, o.Clock)
	view, feed := NewView(self, o.Clock, o.Log, queue.Add)
	r := &Replicas{
		View:   view,
		keeper: newKeeper(c.client, self, o, feed),
		finder: &finder{client: c.client, namespace: o.Namespace, self: self, feed: feed, queue: queue, log: o.Log},
		log:    o.Log,
	}
	if err := r.keeper.takeOver(ctx); err != nil {
		queue.ShutDown()
		return nil, err
	}
	if r.watch, err = startWatch(ctx, c, o.Namespace, feed); err != nil {
		queue.ShutDown()
		return nil, errors.Join(err, r.keeper.giveBack(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// readPod returns the UID of the own pod.
func readPod(ctx context.Context, c client.Reader, o Options) (types.UID, error) {
	pod := &corev1.Pod{}
	err := c.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.PodName}, pod)
	if apierrors.IsNotFound(err) {
		return "", fmt.Errorf("there is no pod %q in namespace %q, which this host should be: set MY_POD_NAME and MY_POD_NAMESPACE by the "+
			"downward API, or name the pods' cluster with --host-kubeconfig: %w", o.PodName, o.Namespace, err)
	}
	if err != nil {
		return "", fmt.Errorf("read own pod %q in namespace %q: %w", o.PodName, o.Namespace, err)
	}
	if finished(pod) {
		return "", fmt.Errorf("the pod %q in namespace %q, which this host should be, is finished (phase %s): the other replicas count it as dead",
			o.PodName, o.Namespace, pod.Status.Phase)
	}
	return pod.UID, nil
}

// finished tells whether a pod has ended for good.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// newProcess names a process so that it can be told from the others of its pod.
func newProcess(podName string) string {
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	return podName + "/" + hex.EncodeToString(random)
}

// Run renews the Lease and keeps up to date until ctx ends. Then Valid becomes false, which the listeners hear, and the Lease is given
// back, so that the others need not wait for its expiry; if that fails they do. It returns nil then, and ErrReplaced when the own pod
// is gone or has finished, or another process has taken the own Lease: the host must end then. Run is called once; everything that
// Join and Run have started has ended when it returns.
func (r *Replicas) Run(ctx context.Context) error {
	telling := r.startTelling(ctx)
	err := r.work(ctx)
	r.keeper.feed.Ended()
	telling.stop()
	if err == nil {
		if err := r.keeper.giveBack(context.WithoutCancel(ctx)); err != nil {
			r.log.Warn("The other replicas have to wait for the expiry of this one's Lease", "error", err)
		}
	}
	return errors.Join(err, r.watch.stop())
}

// work renews the Lease, finds out and watches over the own validity, until ctx ends or this replica is replaced.
func (r *Replicas) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer r.finder.queue.ShutDown()
	defer cancel()
	workers.Go(func() { r.finder.run(ctx) })
	workers.Go(func() { r.checkValidity(ctx) })
	return r.keeper.keep(ctx)
}

// checkValidity has a lapse told when it comes, whatever the renewals do.
func (r *Replicas) checkValidity(ctx context.Context) {
	for {
		wait := r.keeper.feed.CheckValidity()
		select {
		case <-ctx.Done():
			return
		case <-r.keeper.clock.After(wait):
		}
	}
}

// telling is the goroutine that calls the listeners.
type telling struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// startTelling calls the listeners until it is stopped, not only until ctx ends: they hear of the end, too.
func (r *Replicas) startTelling(ctx context.Context) *telling {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &telling{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-r.ready:
				r.keeper.feed.Deliver()
			}
		}
		r.keeper.feed.Deliver()
	}()
	return t
}

// stop returns when the listeners have been told everything.
func (t *telling) stop() {
	t.cancel()
	<-t.ended
}

// Leave says that this replica takes no new work: it ranks last from now on, here and for the others, and they do not wait for it. It
// is called when the host begins to stop, while Run goes on so that what is under way can end. It blocks for one renewal, or two if one is
// under way; if it fails, or ctx ends, the next renewal says it to the others. It returns ErrReplaced as Run does.
func (r *Replicas) Leave(ctx context.Context) error {
	r.keeper.feed.Leaving()
	return r.keeper.renew(ctx)
}

// Serve says which plugins' calls this replica takes from now on; none before the first call. A name must not have a comma. It does
// not block: the own ranks change at once, and the others hear of it by a renewal that comes soon, one for several changes in a row.
func (r *Replicas) Serve(plugins []string) { r.keeper.feed.Serving(plugins) }
