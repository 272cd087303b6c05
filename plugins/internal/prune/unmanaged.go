package prune

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

const (
	// maxPasses: one deletes, one removes finalizers, and one finds nothing left.
	maxPasses = 3
	// maxSent bounds a call's changes to unmanaged objects, give or take a page; the next call goes on.
	maxSent = 500
	// maxFailures ends a pass: a cause common to so many objects will be the same with the others.
	maxFailures = 100
	// maxShown bounds the objects named and watched while they are waited for.
	maxShown = 10
)

// deleteUnmanaged deletes the unmanaged objects of a group with deleteAllResources, and returns the remaining ones.
// unfinished are managed objects of the group, already dealt with.
func (d *deletion) deleteUnmanaged(ctx context.Context, g group, unfinished map[object.Key]bool) remains {
	f := finder{client: d.client, group: g, asOf: d.AsOf, stays: newStays()}
	if g.target != "" {
		other, err := d.Lookup(ctx, g.target)
		if err != nil {
			what := "the objects on the Target of " + g.path.Child("targetName").String()
			return remains{failures: []failure{{what, err}}}
		}
		f.client = other
	}
	if f.client.SameServer(d.client) {
		f.spared = d.spared()
		maps.Copy(f.spared, unfinished)
		f.stays = d.stays
	}
	p := pass{finder: f}
	for range maxPasses {
		before := p.sent
		p = pass{finder: f, sent: before}
		p.run(ctx)
		if p.sent == before || p.sent >= maxSent {
			break
		}
	}
	return p.remains()
}

// remains are the remaining unmanaged objects.
type remains struct {
	failures []failure
	waiting  []string
	seen     []watch.Seen
}

// spared returns the objects deleteAllResources leaves alone on the deploy item's own target.
func (d *deletion) spared() map[object.Key]bool {
	spared := map[object.Key]bool{}
	maps.Copy(spared, d.Spare)
	for _, e := range d.Entries {
		if !objects.RuleOf(e.Policy).Deleted {
			spared[object.KeyOfReference(e.Resource)] = true
		}
	}
	return spared
}

// pass goes once through the lists of all objects of a group, and does the next work on each.
type pass struct {
	finder finder
	// found counts the objects of this pass, sent the changes of this one and those before.
	found, sent int
	// waiting and seen are the first found objects.
	waiting []string
	seen    []watch.Seen
	// cut: not all objects were found.
	cut bool
}

func (p *pass) run(ctx context.Context) {
	for page := range p.finder.all(ctx) {
		p.handle(ctx, page)
		if p.cut = p.sent >= maxSent || len(p.finder.failures) >= maxFailures; p.cut {
			return
		}
	}
}

func (p *pass) handle(ctx context.Context, page found) {
	type result struct {
		o    *metav1.PartialObjectMetadata
		sent bool
		err  error
	}
	client := p.finder.client
	for _, done := range objects.Each(page.objects, func(o metav1.PartialObjectMetadata) result {
		sent, err := p.next(ctx, client.Objects(page.mapping, o.GetNamespace()), &o)
		return result{&o, sent, err}
	}) {
		key := page.key(done.o)
		p.found++
		if done.sent {
			p.sent++
		}
		if done.err != nil {
			failed := failure{key.String(), target.Explain(client.Host, done.err)}
			p.finder.failures = append(p.finder.failures, failed)
			continue
		}
		if len(p.waiting) < maxShown {
			p.waiting = append(p.waiting, key.String()+note(circumstances(done.o)))
			p.seen = append(p.seen, watch.SeenOf(client, page.mapping, key, done.o))
		}
	}
}

// next does the next work on one object. An object exchanged or gone meanwhile is left to the next pass.
func (p *pass) next(
	ctx context.Context, in dynamic.ResourceInterface, o metav1.Object,
) (sent bool, err error) {
	switch {
	case o.GetDeletionTimestamp() == nil:
		err = objects.Delete(ctx, in, o, false)
	case p.finder.group.force && len(o.GetFinalizers()) > 0:
		err = removeFinalizers(ctx, in, o)
	default:
		return false, nil
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, err
	}
	return true, nil
}

// remains names the objects found: the first few, and the number of the others.
func (p *pass) remains() remains {
	left := remains{failures: p.finder.failures, waiting: p.waiting, seen: p.seen}
	if more := p.found - len(p.finder.failures) - len(p.waiting); more > 0 {
		text := fmt.Sprintf("%d more objects of %s", more, p.finder.group.path)
		if p.cut {
			text = "at least " + text
		}
		left.waiting = append(left.waiting, text)
	}
	return left
}
