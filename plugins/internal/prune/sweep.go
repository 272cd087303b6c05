package prune

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
)

const (
	// maxPasses: one deletes, one removes finalizers, and one finds nothing left.
	maxPasses = 3
	// maxSent bounds the changes that a call makes to what is not managed, give or take a page; the next call goes on.
	maxSent = 500
	// maxFailures ends a pass: what so many objects have in common will be the same with the others.
	maxFailures = 100
	// maxShown bounds how many objects are named and watched while they are waited for.
	maxShown = 10
)

// sweep deletes what a group with deleteAllResources finds besides the managed objects, and adds what remains to the
// result. unfinished are managed objects of the group, which have been dealt with.
func (s step) sweep(
	ctx context.Context, client *target.Client, d Deletion, unfinished map[object.Key]bool, result *Result,
) []failure {
	f := finder{client: client, group: s.group, asOf: d.AsOf}
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
	}
	var p pass
	for sent, passes := 0, 0; passes < maxPasses && sent < maxSent; passes++ {
		p = pass{finder: f, budget: maxSent - sent}
		p.run(ctx)
		if p.sent == 0 {
			break
		}
		sent += p.sent
	}
	result.Waiting = append(result.Waiting, p.remaining()...)
	result.Seen = append(result.Seen, p.seen...)
	return p.failures
}

// spared returns what deleteAllResources leaves alone on the deploy item's own target.
func (d Deletion) spared() map[object.Key]bool {
	spared := map[object.Key]bool{}
	maps.Copy(spared, d.Spare)
	for _, e := range d.Entries {
		if !apply.RuleOf(e.Policy).Deleted {
			spared[object.KeyOfReference(e.Resource)] = true
		}
	}
	return spared
}

// pass finds all objects of a group once, and does what comes next about each.
type pass struct {
	finder

	budget int

	found, sent int
	// waiting and seen are the first of what was found.
	waiting []string
	seen    []watch.Seen
	// cut says that not everything was found.
	cut bool
}

func (p *pass) run(ctx context.Context) {
	for page := range p.all(ctx) {
		p.handle(ctx, page)
		if p.cut = p.sent >= p.budget || len(p.failures) >= maxFailures; p.cut {
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
	for _, r := range apply.Each(page.objects, func(o metav1.PartialObjectMetadata) result {
		sent, err := p.next(ctx, writer{p.client.Objects(page.mapping, o.GetNamespace())}, &o)
		return result{&o, sent, err}
	}) {
		key := page.key(r.o)
		p.found++
		if r.sent {
			p.sent++
		}
		if r.err != nil {
			p.failures = append(p.failures, failure{key.String(), target.Explain(p.client.Host, r.err)})
			continue
		}
		if len(p.waiting) < maxShown {
			p.waiting = append(p.waiting, key.String()+note(circumstances(r.o)))
			p.seen = append(p.seen, watch.SeenOf(p.client, page.mapping, key, r.o))
		}
	}
}

// next does what comes next about one object. One that was exchanged or went away meanwhile is left to the next pass.
func (p *pass) next(ctx context.Context, w writer, o metav1.Object) (sent bool, err error) {
	switch {
	case o.GetDeletionTimestamp() == nil:
		err = w.delete(ctx, o, false)
	case p.group.force && len(o.GetFinalizers()) > 0:
		err = w.strip(ctx, o)
	default:
		return false, nil
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, err
	}
	return true, nil
}

// remaining names what the pass has found: the first few objects and how many more there are.
func (p *pass) remaining() []string {
	more := p.found - len(p.failures) - len(p.waiting)
	switch {
	case more > 0 && p.cut:
		return append(p.waiting, fmt.Sprintf("at least %d more objects of %s", more, p.group.path))
	case more > 0:
		return append(p.waiting, fmt.Sprintf("%d more objects of %s", more, p.group.path))
	default:
		return p.waiting
	}
}
