package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// ErrReplaced means that the own Lease is gone, as it goes with the own pod, or that another process has it. The host
// must end.
var ErrReplaced = errors.New("this replica was replaced: its pod is gone, or another process runs under the pod's name")

// ReplicaOptions are the settings of a replica. All are required but Group.
type ReplicaOptions struct {
	// Namespace and PodName are those of the own pod.
	Namespace, PodName string
	// Group are the replicas that share work with each other: any string.
	Group string
	// LeaseDuration is how long a replica counts as alive for the others after they saw its last renewal, at least a
	// second. It is renewed each third of it, and the replica counts its locks as lost after two thirds.
	LeaseDuration time.Duration
	Log           *slog.Logger
}

// Replicas is what a replica knows of itself and of the others, kept up to date from the cluster.
type Replicas struct {
	client  client.Client // without a cache
	cache   client.Reader // of the Leases of replicas, and of the Pods that have not finished
	options ReplicaOptions
	// process is the holder identity of the own Lease, which no other process has.
	process string
	// stopCache ends what Join has started.
	stopCache func() error
	// renewNow and look take one signal each: that the Lease is to be renewed now, and that there may be something new
	// in the cache.
	renewNow, look chan struct{}

	mu          sync.Mutex
	holders     map[string]holder // by the name of the pod
	subscribers []func()
	leaving     bool
	plugins     []string
	// validUntil is when this replica has to count its locks as lost. lapsed: it has, and is not valid before it has
	// told so.
	validUntil time.Time
	lapsed     bool
	ended      bool // Run is ending
}

// Join makes this process a replica: it takes the Lease of its pod over, whoever had it, and watches pods and Leases.
// It blocks until it knows of all that are there; if it is not allowed to list them, until ctx ends. A Replicas must
// be Run, with an ended context if need be: Run stops what Join has started.
func Join(ctx context.Context, config *rest.Config, o ReplicaOptions) (*Replicas, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // a renewal must not wait
	pods, err := cluster.New(config, func(c *cluster.Options) {
		c.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Pod{}, &coordinationv1.Lease{}}}
		c.Cache = cacheOptions(o.Namespace)
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster of the host's pods: %w", err)
	}
	r := newReplicas(pods.GetClient(), pods.GetCache(), o)
	if err := r.takeLease(ctx); err != nil {
		return nil, err
	}
	if err := r.startCache(ctx, pods); err != nil {
		return nil, errors.Join(fmt.Errorf("watch pods and Leases: %w", err), r.giveLeaseBack(ctx), r.stopCache())
	}
	r.refresh(ctx)
	return r, nil
}

func newReplicas(direct client.Client, cache client.Reader, o ReplicaOptions) *Replicas {
	return &Replicas{
		client: direct, cache: cache, options: o, process: o.PodName + "/" + rand.Text()[:8],
		renewNow: make(chan struct{}, 1), look: make(chan struct{}, 1), holders: map[string]holder{},
	}
}

func cacheOptions(namespace string) cache.Options {
	return cache.Options{
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			podMetadata():           {Field: fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed")},
			&coordinationv1.Lease{}: {Label: labels.SelectorFromSet(labels.Set{labelReplica: "true"})},
		},
	}
}

func podMetadata() *metav1.PartialObjectMetadata {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	return pod
}

// startCache starts to watch pods and Leases, and blocks until it knows those that are there.
func (r *Replicas) startCache(ctx context.Context, pods cluster.Cluster) error {
	cacheCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- pods.Start(cacheCtx) }()
	r.stopCache = func() error {
		cancel()
		return <-ended
	}
	changed := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal(r.look) },
		UpdateFunc: func(any, any) { signal(r.look) },
		DeleteFunc: func(any) { signal(r.look) },
	}
	for _, kind := range []client.Object{podMetadata(), &coordinationv1.Lease{}} {
		informer, err := pods.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(changed); err != nil {
			return err
		}
	}
	if !pods.GetCache().WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	return nil
}

// Run renews the Lease and keeps up to date until ctx ends. Then Valid becomes false, which the subscribers hear, and
// the Lease is given back, so that the others need not wait for its expiry; if that fails they do. It returns nil
// then, and ErrReplaced when the own Lease is gone, or another process has it: the host must end then. Run is called
// once; what Join has started has ended when it returns.
func (r *Replicas) Run(ctx context.Context) error {
	following, cancel := context.WithCancel(ctx)
	var follow sync.WaitGroup
	follow.Go(func() { r.follow(following) })
	err := r.keepLease(ctx)
	cancel()
	follow.Wait()
	r.mu.Lock()
	r.validUntil, r.ended = time.Time{}, true
	r.mu.Unlock()
	r.checkValidity()
	if err == nil {
		if err := r.giveLeaseBack(ctx); err != nil {
			r.options.Log.Warn("The other replicas have to wait for the expiry of this one's Lease", "error", err)
		}
	}
	return errors.Join(err, r.stopCache())
}

// PodName is the name of the own pod.
func (r *Replicas) PodName() string { return r.options.PodName }

// Process names this process, and no other, not even a later one of the same pod.
func (r *Replicas) Process() string { return r.process }

// Valid reports whether this replica may count itself as alive: it began its last successful renewal less than two
// thirds of its Lease's duration ago, and Run has not ended. No other replica takes this one for dead as long as it
// has not been false.
func (r *Replicas) Valid() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.valid()
}

// Alone reports whether no other replica of the group was known when this one heard of the others last, and Run has not
// ended: there is none that could take its locks over, be this one valid or not.
func (r *Replicas) Alone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	group := groupLabel(r.options.Group)
	for _, h := range r.holders {
		if h.pod && h.lease && h.group == group { // one that seems dead may only be cut off, as this one is
			return false
		}
	}
	return true
}

func (r *Replicas) valid() bool { return !r.lapsed && time.Now().Before(r.validUntil) }

// validFor is how long this replica is valid without another renewal.
func (r *Replicas) validFor() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.validUntil)
}

// Subscribe has a function called when other replicas, or holders of locks, have died or come, when the plugins of a
// replica have changed, and when Valid has. It must not block.
func (r *Replicas) Subscribe(changed func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers = append(r.subscribers, changed)
}

// tell tells the subscribers of a change.
func (r *Replicas) tell() {
	r.mu.Lock()
	subscribers := r.subscribers
	r.mu.Unlock()
	for _, changed := range subscribers {
		changed()
	}
}

// Leave says that this replica takes no new work: it ranks last from now on, here and for the others, and they do not
// wait for it. It is called when the host begins to stop, while Run goes on so that what is under way can end.
func (r *Replicas) Leave() {
	r.mu.Lock()
	r.leaving = true
	r.mu.Unlock()
	r.tell()
	signal(r.renewNow)
}

// Serve says which plugins' calls this replica takes from now on; none before the first call. A name must not have a
// comma.
func (r *Replicas) Serve(plugins []string) {
	plugins = slices.Compact(slices.Sorted(slices.Values(plugins)))
	r.mu.Lock()
	same := slices.Equal(plugins, r.plugins)
	r.plugins = plugins
	r.mu.Unlock()
	if !same {
		r.tell()
		signal(r.renewNow)
	}
}

// signal leaves a signal that there is something to do; one is enough.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// key is that of the Pod with a name, and of its Lease.
func (r *Replicas) key(podName string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.options.Namespace, Name: podName}
}
