// Package follow tells what becomes of DeployItems as it happens: it lists and watches them, again and again, so that neither the end of a
// watch nor a restart of the API server is the end of it.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// pause is how long it takes until another try after something went wrong, and how often a watch may end.
const pause = time.Second

// Kind says what has become of an item.
type Kind string

// The kinds of changes.
const (
	// Added: the item is new, or was there at first.
	Added Kind = "added"
	// Changed: the item is another one than before.
	Changed Kind = "changed"
	// Gone: the item is not there any more.
	Gone Kind = "gone"
	// Complete: everything that a list has found was told. This one has no item.
	Complete Kind = "complete"
)

// Change is what has become of an item.
type Change struct {
	Kind Kind
	// Item as it is now, or as it was last.
	Item *v1alpha1.DeployItem
}

// ErrStop is what a function that has seen enough returns.
var ErrStop = errors.New("seen enough")

// Items tells see of all items that the options select, at first and whenever one of them has changed, until see returns an error or ctx
// ends, and returns that error, or the cause of that end; nil for ErrStop. See is called by the goroutine of the caller.
//
// The error of the first list is returned, too; later it is tried again, unless that is of no use, because the rights are gone, say.
func Items(ctx context.Context, api client.WithWatch, see func(Change) error, opts ...client.ListOption) error {
	f := &follower{api: api, see: see, opts: opts, known: map[types.NamespacedName]*v1alpha1.DeployItem{}}
	err := f.round(ctx)
	for err == nil || f.listed && f.refused == nil && passing(err) {
		select {
		case <-(clock.RealClock{}).After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err = f.round(ctx)
	}
	switch {
	case errors.Is(f.refused, ErrStop):
		return nil
	case f.refused != nil:
		return f.refused
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("watch DeployItems: %w", err)
	}
}

// passing tells whether an error may be over in a moment.
func passing(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized, metav1.StatusReasonNotFound, metav1.StatusReasonInvalid,
		metav1.StatusReasonBadRequest, metav1.StatusReasonMethodNotAllowed:
		return false
	default:
		return true
	}
}

// follower follows items. Its methods return refused if that is set.
type follower struct {
	api  client.WithWatch
	see  func(Change) error
	opts []client.ListOption
	// known are the items that were told.
	known map[types.NamespacedName]*v1alpha1.DeployItem
	// listed: the items were listed at least once.
	listed bool
	// refused is the error of see.
	refused error
}

// round lists the items and watches them until the watch ends.
func (f *follower) round(ctx context.Context) error {
	list := &v1alpha1.DeployItemList{}
	if err := f.api.List(ctx, list, f.opts...); err != nil {
		return err
	}
	f.listed = true
	if err := f.compare(list.Items); err != nil {
		return err
	}
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true}}
	events, err := f.api.Watch(ctx, &v1alpha1.DeployItemList{}, append([]client.ListOption{from}, f.opts...)...)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if err := f.take(event); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// compare tells what a list has that was not told yet.
func (f *follower) compare(items []v1alpha1.DeployItem) error {
	there := map[types.NamespacedName]bool{}
	for i := range items {
		there[client.ObjectKeyFromObject(&items[i])] = true
		if err := f.is(&items[i]); err != nil {
			return err
		}
	}
	for name, item := range f.known {
		if !there[name] {
			if err := f.gone(item); err != nil {
				return err
			}
		}
	}
	return f.tell(Change{Kind: Complete})
}

// take tells what an event says.
func (f *follower) take(event watch.Event) error {
	item, ok := event.Object.(*v1alpha1.DeployItem)
	switch {
	case event.Type == watch.Error:
		return apierrors.FromObject(event.Object)
	case !ok || event.Type == watch.Bookmark:
		return nil
	case event.Type == watch.Deleted:
		return f.gone(item)
	default:
		return f.is(item)
	}
}

func (f *follower) is(item *v1alpha1.DeployItem) error {
	name := client.ObjectKeyFromObject(item)
	before := f.known[name]
	f.known[name] = item
	switch {
	case before == nil:
		return f.tell(Change{Kind: Added, Item: item})
	case before.ResourceVersion == item.ResourceVersion:
		return nil
	default:
		return f.tell(Change{Kind: Changed, Item: item})
	}
}

func (f *follower) gone(item *v1alpha1.DeployItem) error {
	delete(f.known, client.ObjectKeyFromObject(item))
	return f.tell(Change{Kind: Gone, Item: item})
}

func (f *follower) tell(change Change) error {
	f.refused = f.see(change)
	return f.refused
}
