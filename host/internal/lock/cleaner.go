package lock

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// sweepInterval is how often all SyncObjects are looked through.
	sweepInterval = time.Hour
	// electionInterval is how often a Cleaner looks whether it has been elected since.
	electionInterval = 10 * time.Second
	// deletionPause comes between the deletion of an item and that of its locks: their holder is to be done with it.
	deletionPause = 2 * time.Second
	// cleaners is how many SyncObjects are deleted at the same time.
	cleaners = 4
	// lockedUID is the index of SyncObjects by the UID of the deploy item that they lock.
	lockedUID = "pergola.lockedUID"
)

// Cleaner deletes the SyncObjects of deploy items that are gone: soon after the deletion of an item, and when it looks through all
// of them, which it does now and then and when it has just been elected. An item that has another UID is another item. It goes by the
// kind and the name of a SyncObject, whoever has made it; those of other kinds it leaves alone.
//
// Several may run at once: each deletion is conditional.
type Cleaner struct {
	// Cache has the watches of SyncObjects and of the metadata of deploy items. Required, as all fields.
	Cache cache.Cache
	// Live reads without a cache.
	Live client.Reader
	// Client deletes.
	Client client.Writer
	// NewMetadata returns an empty object for metadata-only access to deploy items.
	NewMetadata func() *metav1.PartialObjectMetadata
	// Elected tells whether this replica is the one that cleans up.
	Elected func() bool
	Clock   clock.WithTicker
	Log     *slog.Logger
}

// orphan is an item that is gone, or may be.
type orphan struct {
	item types.NamespacedName
	uid  types.UID
	// suspected: that it is gone is still to be confirmed.
	suspected bool
}

type orphans = workqueue.TypedRateLimitingInterface[orphan]

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *Cleaner) NeedLeaderElection() bool { return false }

// Start cleans up until ctx ends. It blocks until then.
func (c *Cleaner) Start(ctx context.Context) error {
	if err := c.Cache.IndexField(ctx, &v1alpha1.SyncObject{}, lockedUID, indexLocked); err != nil {
		return fmt.Errorf("index locks: %w", err)
	}
	items, err := c.Cache.GetInformer(ctx, c.NewMetadata())
	if err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[orphan](time.Second, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[orphan]{Clock: c.Clock})
	registration, err := items.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { c.deleted(queue, obj) }})
	if err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	var workers sync.WaitGroup
	for range cleaners {
		workers.Go(func() {
			for c.next(ctx, queue) {
			}
		})
	}
	c.sweepAlways(ctx, queue)
	queue.ShutDown()
	workers.Wait()
	if err := items.RemoveEventHandler(registration); err != nil {
		return fmt.Errorf("end the watch of deploy items: %w", err)
	}
	return nil
}

func indexLocked(object client.Object) []string {
	if o, ok := object.(*v1alpha1.SyncObject); ok {
		if locked, ok := lockedBy(o); ok {
			return []string{string(locked.uid)}
		}
	}
	return nil
}

// lockedBy is the deploy item that a SyncObject locks, whoever has made it.
func lockedBy(object *v1alpha1.SyncObject) (orphan, bool) {
	uid, named := strings.CutPrefix(object.Name, object.Spec.Prefix+"-")
	if !named || uid == "" || object.Spec.Kind != kindDeployItem {
		return orphan{}, false
	}
	return orphan{item: types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.Name}, uid: types.UID(uid), suspected: true}, true
}

func (c *Cleaner) deleted(queue orphans, obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok && c.Elected() {
		queue.AddAfter(orphan{item: client.ObjectKeyFromObject(meta), uid: meta.UID}, deletionPause)
	}
}

// sweepAlways looks through all SyncObjects as often as it should until ctx ends.
func (c *Cleaner) sweepAlways(ctx context.Context, queue orphans) {
	ticker := c.Clock.NewTicker(electionInterval)
	defer ticker.Stop()
	var last time.Time // zero as long as this replica is not the elected one
	for {
		if !c.Elected() {
			last = time.Time{}
		} else if last.IsZero() || c.Clock.Since(last) >= sweepInterval {
			if err := c.sweep(ctx, queue); err == nil {
				last = c.Clock.Now()
			} else if ctx.Err() == nil {
				c.Log.Warn("the locks of deploy items that are gone were not looked for; it is tried again", "error", err.Error())
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// sweep puts the items into the queue that locks are left of.
func (c *Cleaner) sweep(ctx context.Context, queue orphans) error {
	locks := &v1alpha1.SyncObjectList{}
	if err := c.Cache.List(ctx, locks, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list locks in the cache: %w", err)
	}
	for i := range locks.Items {
		locked, ours := lockedBy(&locks.Items[i])
		if !ours {
			continue
		}
		item := c.NewMetadata()
		err := c.Cache.Get(ctx, locked.item, item)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read deploy item in the cache: %w", err)
		}
		if err != nil || item.UID != locked.uid {
			queue.Add(locked)
		}
	}
	return nil
}

// next cleans up after one item; false when the queue is shut down.
func (c *Cleaner) next(ctx context.Context, queue orphans) bool {
	gone, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(gone)
	if err := c.clean(ctx, gone); err != nil && ctx.Err() == nil {
		c.Log.Warn("the locks of a deploy item that is gone are still there; it is tried again", "deployitem", gone.item.String(), "error", err.Error())
		queue.AddRateLimited(gone)
		return true
	}
	queue.Forget(gone)
	return true
}

// clean deletes the locks of an item that is gone.
func (c *Cleaner) clean(ctx context.Context, gone orphan) error {
	if gone.suspected {
		item := c.NewMetadata()
		err := c.Live.Get(ctx, gone.item, item)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read deploy item: %w", err)
		}
		if err == nil && item.UID == gone.uid {
			return nil
		}
	}
	locks := &v1alpha1.SyncObjectList{}
	err := c.Cache.List(ctx, locks, client.InNamespace(gone.item.Namespace), client.MatchingFields{lockedUID: string(gone.uid)})
	if err != nil {
		return fmt.Errorf("list locks in the cache: %w", err)
	}
	for i := range locks.Items {
		object := &locks.Items[i]
		err := c.Client.Delete(ctx, object, client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete lock %q: %w", object.Name, err)
		}
		c.Log.Debug("deleted the lock of a deploy item that is gone", "lock", object.Namespace+"/"+object.Name)
	}
	return nil
}
