package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// cleanInterval is how often the SyncObjects are looked through.
const cleanInterval = 10 * time.Second

// Cleaner deletes the SyncObjects of deleted deploy items. An item with another UID is another item. The kind and the
// name of a SyncObject decide, not its creator; SyncObjects for other kinds stay.
//
// Several Cleaners may run at once: each deletion is conditional.
type Cleaner struct {
	// Cache has the watches of SyncObjects and of deploy items. Required, as all fields.
	Cache client.Reader
	// Live reads without a cache.
	Live client.Reader
	// Client deletes.
	Client client.Writer
	// Elected reports whether this replica cleans up.
	Elected func() bool
	Log     *slog.Logger
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *Cleaner) NeedLeaderElection() bool { return false }

// Start cleans up until ctx ends. It blocks until then.
func (c *Cleaner) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if !c.Elected() {
			return
		}
		if err := c.clean(ctx); err != nil && ctx.Err() == nil {
			c.Log.Warn("cannot delete the locks of deleted deploy items; trying again", "error", err.Error())
		}
	}, cleanInterval)
	return nil
}

// clean deletes the SyncObjects of all deleted items.
func (c *Cleaner) clean(ctx context.Context) error {
	locks := &v1alpha1.SyncObjectList{}
	if err := c.Cache.List(ctx, locks, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list locks in the cache: %w", err)
	}
	var errs []error
	for i := range locks.Items {
		errs = append(errs, c.cleanOne(ctx, &locks.Items[i]))
	}
	return errors.Join(errs...)
}

// cleanOne deletes a SyncObject if neither the cache nor the API server has its item.
func (c *Cleaner) cleanOne(ctx context.Context, object *v1alpha1.SyncObject) error {
	uid, named := strings.CutPrefix(object.Name, object.Spec.Prefix+"-")
	if !named || uid == "" || object.Spec.Kind != kindDeployItem {
		return nil
	}
	for _, reader := range []client.Reader{c.Cache, c.Live} {
		item := &v1alpha1.DeployItem{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: object.Spec.Name}, item)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read deploy item: %w", err)
		}
		if err == nil && item.UID == types.UID(uid) {
			return nil
		}
	}
	asSeen := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	err := c.Client.Delete(ctx, object, asSeen)
	if apierrors.IsConflict(err) { // it was just released; the next round deletes it
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete lock %q: %w", object.Name, err)
	}
	c.Log.Debug("deleted the lock of a deleted deploy item", "lock", object.Namespace+"/"+object.Name)
	return nil
}
