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
	// callTimeout bounds one call of a plugin, which is to wait for nothing.
	callTimeout = time.Minute
	// pageSize is how many holdings are looked at before the plugin is told: little time is to pass in between.
	pageSize = 100
	// readers is how many items are read at the same time.
	readers = 8
)

// items are versions of deploy items: the resourceVersion by which one was seen to have a job under way.
type items map[types.NamespacedName]string

// round is one look at what a plugin keeps.
type round struct {
	*Collector

	plugin Plugin
	// before are the items that had a job under way in the round before. As long as they have not changed they need not
	// be read again. busy are those of this round.
	before, busy items
	mu           sync.Mutex // guards busy
}

// collect takes a look at what a plugin keeps, and has it remove what nobody needs. It tells whether there was
// anything, so that another look has to show whether it is gone. What the API server cannot answer ends the round; what
// the plugin cannot remove does not.
func (c *Collector) collect(ctx context.Context, p Plugin) (again bool, err error) {
	holdings, err := bounded(ctx, p.Holdings)
	if err != nil {
		return false, fmt.Errorf("ask what is kept: %w", err)
	}
	r := &round{Collector: c, plugin: p, before: c.remembered(p.Name()), busy: items{}}
	var failures []error
	for page := range slices.Chunk(sorted(holdings), pageSize) {
		found, err := r.obsolete(ctx, page)
		if err != nil {
			return again, errors.Join(append(failures, err)...)
		}
		if len(found) == 0 {
			continue
		}
		again = true
		failures = append(failures, r.tell(ctx, found))
	}
	c.remember(p.Name(), r.busy)
	return again, errors.Join(failures...)
}

// tell has the plugin remove what nobody needs.
func (r *round) tell(ctx context.Context, holdings []sdk.Holding) error {
	for _, h := range holdings {
		r.Log.Debug("nobody needs this any more", "plugin", r.plugin.Name(), "deployitem", h.Namespace+"/"+h.Name,
			"uid", string(h.UID), "jobID", h.JobID)
	}
	_, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.plugin.Collect(ctx, holdings) })
	if err != nil {
		return fmt.Errorf("remove what is kept for %d deploy items or jobs: %w", len(holdings), err)
	}
	r.Log.Info("plugin was told what nobody needs any more", "plugin", r.plugin.Name(), "count", len(holdings))
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

// obsolete returns those holdings of a page that nobody needs. The error is that of the API server.
func (r *round) obsolete(ctx context.Context, page []sdk.Holding) ([]sdk.Holding, error) {
	suspects := map[types.NamespacedName]bool{}
	for _, h := range page {
		suspected, err := r.suspected(ctx, h)
		if err != nil {
			return nil, err
		}
		if suspected {
			suspects[itemOf(h)] = true
		}
	}
	read, err := r.read(ctx, suspects)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(page), func(h sdk.Holding) bool {
		item, known := read[itemOf(h)]
		return !known || needed(h, item)
	}), nil
}

// suspected tells whether it takes a look at an item to know whether anybody needs a holding.
func (r *round) suspected(ctx context.Context, h sdk.Holding) (bool, error) {
	item := r.NewMetadata()
	if err := client.IgnoreNotFound(r.Cache.Get(ctx, itemOf(h), item)); err != nil {
		return false, fmt.Errorf("read deploy item in the cache: %w", err)
	}
	if item.UID != h.UID { // or it is not there, and has none
		return true, nil
	}
	if h.JobID == "" {
		return false, nil
	}
	if version := r.before[itemOf(h)]; version == item.ResourceVersion {
		r.note(itemOf(h), version)
		return false, nil
	}
	return true, nil
}

// read reads items without a cache. One that is not there is nil.
func (r *round) read(ctx context.Context, names map[types.NamespacedName]bool) (map[types.NamespacedName]*v1alpha1.DeployItem, error) {
	var mu sync.Mutex // guards read
	read := make(map[types.NamespacedName]*v1alpha1.DeployItem, len(names))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for name := range names {
		group.Go(func() error {
			item := &v1alpha1.DeployItem{}
			err := r.Live.Get(ctx, name, item)
			switch {
			case isGone(err):
				item = nil
			case err != nil:
				return fmt.Errorf("read deploy item %q: %w", name, err)
			case !finished(item):
				r.note(name, item.ResourceVersion)
			}
			mu.Lock()
			defer mu.Unlock()
			read[name] = item
			return nil
		})
	}
	return read, group.Wait()
}

// note remembers that an item has a job under way.
func (r *round) note(item types.NamespacedName, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy[item] = version
}

// isGone tells whether the API server says that there is no such item. One that does not know of deploy items at all,
// as it may when it has just been started, says much the same.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func itemOf(h sdk.Holding) types.NamespacedName {
	return types.NamespacedName{Namespace: h.Namespace, Name: h.Name}
}

// needed tells whether somebody may need a holding still. item is the one of its name, read after the plugin has told
// of the holding; nil if there is none.
func needed(h sdk.Holding, item *v1alpha1.DeployItem) bool {
	switch {
	case item == nil || item.UID != h.UID:
		return false
	case h.JobID == "":
		return true
	default:
		// The plugin keeps something only for jobs that the item has had before it was read. If none is under way, all
		// of them are over.
		return !finished(item)
	}
}

// finished tells whether an item has had a job, and none is under way. The phase tells of a job in whose place somebody
// has put a finished one.
func finished(item *v1alpha1.DeployItem) bool {
	status := &item.Status
	return status.JobID != "" && contract.Finished(item) && status.Phase.IsFinal()
}

func (c *Collector) remembered(plugin string) items {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy[plugin]
}

func (c *Collector) remember(plugin string, busy items) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(busy) == 0 {
		delete(c.busy, plugin)
		return
	}
	c.busy[plugin] = busy
}
