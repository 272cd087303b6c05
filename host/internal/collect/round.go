package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// callTimeout bounds one call of a plugin. The call is to wait for nothing.
	callTimeout = time.Minute
	// pageSize is how many holdings are looked at before the plugin is told: little time is to pass in between.
	pageSize = 100
	// readers is how many items are read at the same time.
	readers = 8
)

// collect lists the holdings of a plugin, and has it remove the obsolete ones. It reports whether there were any, so
// that the next round checks the removal. An error of the API server ends the round; an error of a removal does not.
func (c *Collector) collect(ctx context.Context, p Plugin) (again bool, err error) {
	holdings, err := bounded(ctx, p.Holdings)
	if err != nil {
		return false, fmt.Errorf("list holdings: %w", err)
	}
	var failures []error
	for page := range slices.Chunk(sorted(holdings), pageSize) {
		found, err := c.obsolete(ctx, page)
		if err != nil {
			return again, errors.Join(append(failures, err)...)
		}
		if len(found) == 0 {
			continue
		}
		again = true
		failures = append(failures, c.tell(ctx, p, found))
	}
	return again, errors.Join(failures...)
}

// tell has the plugin remove obsolete holdings.
func (c *Collector) tell(ctx context.Context, p Plugin, holdings []sdk.Holding) error {
	for _, h := range holdings {
		c.Log.Debug("holding is obsolete", "plugin", p.Name(), "deployitem", h.Namespace+"/"+h.Name,
			"uid", string(h.UID), "jobID", h.JobID)
	}
	_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.Collect(ctx, holdings) })
	if err != nil {
		return fmt.Errorf("remove holdings of %d deploy items or jobs: %w", len(holdings), err)
	}
	c.Log.Info("told plugin to remove obsolete holdings", "plugin", p.Name(), "count", len(holdings))
	return nil
}

func bounded[Answer any](ctx context.Context, call func(context.Context) (Answer, error)) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(ctx)
}

// sorted returns holdings by their items, each once.
func sorted(holdings []sdk.Holding) []sdk.Holding {
	holdings = slices.Clone(holdings)
	slices.SortFunc(holdings, func(a, b sdk.Holding) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID), cmp.Compare(a.JobID, b.JobID))
	})
	return slices.Compact(holdings)
}

// obsolete returns the obsolete holdings of a page. The error is that of the API server.
func (c *Collector) obsolete(ctx context.Context, page []sdk.Holding) ([]sdk.Holding, error) {
	suspects := map[types.NamespacedName]bool{}
	for _, h := range page {
		suspected, err := c.suspected(ctx, h)
		if err != nil {
			return nil, err
		}
		if suspected {
			suspects[itemOf(h)] = true
		}
	}
	read, err := c.read(ctx, suspects)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(page), func(h sdk.Holding) bool {
		item, known := read[itemOf(h)]
		return !known || needed(h, item)
	}), nil
}

// suspected reports whether only a read of the item can show that a holding is needed.
func (c *Collector) suspected(ctx context.Context, h sdk.Holding) (bool, error) {
	item := &v1alpha1.DeployItem{}
	if err := client.IgnoreNotFound(c.Cache.Get(ctx, itemOf(h), item, client.UnsafeDisableDeepCopy)); err != nil {
		return false, fmt.Errorf("read deploy item in the cache: %w", err)
	}
	// An item that is not in the cache has no UID.
	return item.UID != h.UID || h.JobID != "", nil
}

// read reads items without a cache. A missing item is nil.
func (c *Collector) read(
	ctx context.Context, names map[types.NamespacedName]bool,
) (map[types.NamespacedName]*v1alpha1.DeployItem, error) {
	var mu sync.Mutex // guards read
	read := make(map[types.NamespacedName]*v1alpha1.DeployItem, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for name := range names {
		group.Go(func() error {
			item := &v1alpha1.DeployItem{}
			err := c.Live.Get(ctx, name, item)
			if isGone(err) {
				item = nil
			} else if err != nil {
				return fmt.Errorf("read deploy item %q: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			read[name] = item
			return nil
		})
	}
	return read, group.Wait()
}

// isGone reports whether the API server has no such item. A server just started may not know the kind yet, so that its
// answer means the same here.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func itemOf(h sdk.Holding) types.NamespacedName {
	return types.NamespacedName{Namespace: h.Namespace, Name: h.Name}
}

// needed reports whether a holding may still be needed. item is the one of its name, read after the plugin has listed
// the holding; nil if there is none.
//
// A plugin keeps holdings only for jobs the item had before it was read. Without a running job all of them are over.
// The phase shows a running job in whose place a finished one was set.
func needed(h sdk.Holding, item *v1alpha1.DeployItem) bool {
	if item == nil || item.UID != h.UID {
		return false
	}
	return h.JobID == "" || item.Status.JobID == "" || !contract.Finished(item) || !item.Status.Phase.IsFinal()
}
