package prune

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
)

const (
	// maxRounds: one deletes, one removes finalizers, and one finds nothing left.
	maxRounds = 3
	// maxSent bounds a call's changes to unmanaged objects, give or take a page; the next call goes on.
	maxSent = 500
	// maxFailures ends a round: a cause common to so many objects will be the same with the others.
	maxFailures = 100
	// maxShown bounds the objects named and watched while they are waited for.
	maxShown = 10
)

// deleteUnmanaged deletes the unmanaged objects of a group with deleteAllResources, and adds the remaining ones to
// the result. unfinished are managed objects of the group, already dealt with.
func (s step) deleteUnmanaged(
	ctx context.Context, client *target.Client, d Deletion, unfinished map[object.Key]bool, result *Result,
) []failure {
	f := finder{client: client, group: s.group, asOf: d.AsOf, stays: newStays()}
	if s.group.target != "" {
		other, err := d.Lookup(ctx, s.group.target)
		if err != nil {
			return []failure{{"the objects on the Target of " + s.group.path.Child("targetName").String(), err}}
		}
		f.client = other
	}
	if f.client.SameServer(client) {
		f.spared = d.spared()
		maps.Copy(f.spared, unfinished)
		f.stays = d.stays
	}
	var r round
	for sent, rounds := 0, 0; rounds < maxRounds && sent < maxSent; rounds++ {
		r = round{finder: f, budget: maxSent - sent}
		r.run(ctx)
		if r.sent == 0 {
			break
		}
		sent += r.sent
	}
	result.Waiting = append(result.Waiting, r.remaining()...)
	result.Seen = append(result.Seen, r.seen...)
	return r.finder.failures
}

// spared returns the objects deleteAllResources leaves alone on the deploy item's own target.
func (d Deletion) spared() map[object.Key]bool {
	spared := map[object.Key]bool{}
	maps.Copy(spared, d.Spare)
	for _, e := range d.Entries {
		if !objects.RuleOf(e.Policy).Deleted {
			spared[object.KeyOfReference(e.Resource)] = true
		}
	}
	return spared
}

// round finds all objects of a group once, and does the next work on each.
type round struct {
	finder finder
	// budget bounds the changes, give or take a page.
	budget int

	found, sent int
	// waiting and seen are the first found objects.
	waiting []string
	seen    []watch.Seen
	// cut: not all objects were found.
	cut bool
}

func (r *round) run(ctx context.Context) {
	for page := range r.finder.all(ctx) {
		r.handle(ctx, page)
		if r.cut = r.sent >= r.budget || len(r.finder.failures) >= maxFailures; r.cut {
			return
		}
	}
}

func (r *round) handle(ctx context.Context, page found) {
	type result struct {
		o    *metav1.PartialObjectMetadata
		sent bool
		err  error
	}
	client := r.finder.client
	for _, done := range objects.Each(page.objects, func(o metav1.PartialObjectMetadata) result {
		sent, err := r.next(ctx, writer{client.Objects(page.mapping, o.GetNamespace())}, &o)
		return result{&o, sent, err}
	}) {
		key := page.key(done.o)
		r.found++
		if done.sent {
			r.sent++
		}
		if done.err != nil {
			failed := failure{key.String(), target.Explain(client.Host, done.err)}
			r.finder.failures = append(r.finder.failures, failed)
			continue
		}
		if len(r.waiting) < maxShown {
			r.waiting = append(r.waiting, key.String()+note(circumstances(done.o)))
			r.seen = append(r.seen, watch.SeenOf(client, page.mapping, key, done.o))
		}
	}
}

// next does the next work on one object. An object exchanged or gone meanwhile is left to the next round.
func (r *round) next(ctx context.Context, w writer, o metav1.Object) (sent bool, err error) {
	switch {
	case o.GetDeletionTimestamp() == nil:
		err = objects.Delete(ctx, w.objects, o, false)
	case r.finder.group.force && len(o.GetFinalizers()) > 0:
		err = w.removeFinalizers(ctx, o)
	default:
		return false, nil
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, err
	}
	return true, nil
}

// remaining names the objects found: the first few, and the number of the others.
func (r *round) remaining() []string {
	more := r.found - len(r.finder.failures) - len(r.waiting)
	switch {
	case more > 0 && r.cut:
		return append(r.waiting, fmt.Sprintf("at least %d more objects of %s", more, r.finder.group.path))
	case more > 0:
		return append(r.waiting, fmt.Sprintf("%d more objects of %s", more, r.finder.group.path))
	default:
		return r.waiting
	}
}
