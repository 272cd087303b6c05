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

// ErrReplaced reports that the own Lease is gone, together with the own pod, or that another process has it. The host
// must end.
var ErrReplaced = errors.New("this replica was replaced: its pod is gone, or another process runs under the pod's name")

// ReplicaOptions are the settings of a replica. All are required but Namespaces and Group.
type ReplicaOptions struct {
	// Namespace and PodName name the own pod.
	Namespace, PodName string
	// Namespaces are the only ones of the host, for its users; none for all.
	Namespaces []string
	// Group is any string. Replicas of one group share their work.
	Group string
	// LeaseDuration is the time from the last renewal seen to the death of a replica, at least a second. The Lease is
	// renewed each third of it, and the replica counts its locks as lost after two thirds.
	LeaseDuration time.Duration
	Log           *slog.Logger
}

// Replicas is the knowledge of a replica about itself and the others, kept up to date from the cluster.
type Replicas struct {
	// client has no cache; cache has the Leases of replicas and the Pods without the finished ones.
	client  client.Client
	cache   client.Reader
	options ReplicaOptions
	// process is the holder identity of the own Lease, unique to this process.
	process string
	// stopCache stops the cache and waits for its end.
	stopCache func() error
	// renewNow asks for a renewal of the Lease, look for a look at the cache. Each takes one signal.
	renewNow, look chan struct{}

	mu sync.Mutex
	// holders are the other pods by their names.
	holders     map[string]holder
	subscribers []func()
	leaving     bool
	plugins     []string
	// validUntil is the end of the validity of this replica. lapsed: the subscribers have heard of that end, and not yet
	// of a new beginning.
	validUntil time.Time
	lapsed     bool
	// ended: Run is ending.
	ended bool
}

// Join makes this process a replica: it takes over the Lease of its pod, and watches Pods and Leases. It blocks until
// all of them are known; without the right to list them, until ctx ends. Run must follow, with an ended context if need
// be: it stops the watches.
func Join(ctx context.Context, config *rest.Config, o ReplicaOptions) (*Replicas, error) {
	config = rest.CopyConfig(config)
	// A renewal must not wait for other requests.
	config.QPS = -1
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
		return nil, errors.Join(fmt.Errorf("watch pods and Leases: %w", err), r.releaseLease(ctx), r.stopCache())
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

// startCache starts the watches of Pods and Leases, and blocks until the existing ones are known.
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

// Run renews the Lease and follows the other replicas until ctx ends. Then Valid becomes false, the subscribers hear of
// it, and the Lease is released; if the release fails, the other replicas wait for the expiry. It returns nil then, and
// ErrReplaced when the own Lease is gone or another process has it: the host must end then. Run is called once, and
// stops the watches of Join.
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
		if err := r.releaseLease(ctx); err != nil {
			r.options.Log.Warn("cannot release the Lease of this replica; the others wait for its expiry",
				"error", err.Error())
		}
	}
	return errors.Join(err, r.stopCache())
}

// PodName is the name of the own pod.
func (r *Replicas) PodName() string { return r.options.PodName }

// Process is a unique name of this process; a later process of the same pod has another one.
func (r *Replicas) Process() string { return r.process }

// Valid reports whether this replica may count itself as alive: it began its last successful renewal less than two
// thirds of its Lease's duration ago, and Run has not ended. Until the first false, no other replica takes this one for
// dead.
func (r *Replicas) Valid() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.valid()
}

// Alone reports whether there is no other replica of the group to take over the locks of this one, valid or not, as far
// as is known. It is false after the end of Run.
func (r *Replicas) Alone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	group := groupLabel(r.options.Group)
	for _, h := range r.holders {
		// A replica that seems dead may only be cut off, as this one is.
		if h.pod && h.lease && h.group == group {
			return false
		}
	}
	return true
}

func (r *Replicas) valid() bool { return !r.lapsed && time.Now().Before(r.validUntil) }

// validFor is the time until the end of the validity without another renewal.
func (r *Replicas) validFor() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.validUntil)
}

// Subscribe registers a function to be called after the death or arrival of a replica or holder of locks, after a
// change of a replica's plugins, and when Valid has changed. It must not block.
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

// Leave announces that this replica takes no new work: it ranks last from now on, here and for the others, and they do
// not wait for it. It is called when the host begins to stop; Run goes on until the calls under way have ended.
func (r *Replicas) Leave() {
	r.mu.Lock()
	r.leaving = true
	r.mu.Unlock()
	r.tell()
	signal(r.renewNow)
}

// Serve announces the plugins of this replica; before the first call it has none. A name must not have a comma.
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

// signal leaves a signal in a channel unless there is one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// key is the key of a Pod and of its Lease.
func (r *Replicas) key(podName string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.options.Namespace, Name: podName}
}
