package remove

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// maxPasses: one deletes, one removes finalizers, and one finds nothing left.
	maxPasses = 3
	// maxSent bounds the changes that a call makes to what is not managed, give or take a page; the next call goes on.
	maxSent = 500
	// maxFailures ends a pass: what so many objects have in common will be the same with the others.
	maxFailures = 100
	// mostShown bounds how many objects are named and watched while they are waited for.
	mostShown = 10
)

// sweep deletes what a group with deleteAllResources finds besides the managed objects, and adds what is still there to the result.
// unfinished are managed objects of the group, which have been dealt with.
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
	var all pass
	for sent, passes := 0, 0; passes < maxPasses && sent < maxSent; passes++ {
		all = pass{finder: f, force: s.group.force, budget: maxSent - sent}
		all.run(ctx)
		if all.found == 0 || all.sent == 0 {
			break
		}
		sent += all.sent
	}
	result.Waiting = append(result.Waiting, all.stillThere()...)
	result.Seen = append(result.Seen, all.seen...)
	return all.failures
}

// spared returns what deleteAllResources leaves alone on the deploy item's own target.
func (d Deletion) spared() map[object.Key]bool {
	spared := map[object.Key]bool{}
	maps.Copy(spared, d.Spare)
	for _, e := range d.Entries {
		if e.Policy == managedresource.PolicyKeep || e.Policy == managedresource.PolicyIgnore {
			spared[object.KeyOfReference(e.Resource)] = true
		}
	}
	return spared
}

// pass looks at all objects of a group once, and makes the next move about each.
type pass struct {
	finder

	force  bool
	budget int

	found, sent int
	// waiting and seen are the first of what was found.
	waiting  []string
	seen     []watch.Seen
	failures []failure
	// cut says that not everything was looked at.
	cut bool
}

func (p *pass) run(ctx context.Context) {
	failures := p.find(ctx, func(found page) bool {
		p.work(ctx, found)
		p.cut = p.sent >= p.budget || len(p.failures) >= maxFailures
		return !p.cut
	})
	p.failures = append(p.failures, failures...)
}

func (p *pass) work(ctx context.Context, found page) {
	type result struct {
		sent bool
		err  error
	}
	results := make([]result, len(found.objects))
	each(len(results), func(i int) {
		o := &found.objects[i]
		results[i].sent, results[i].err = p.move(ctx, p.client.Metadata(found.mapping, o.GetNamespace()), o)
	})
	for i, r := range results {
		key, o := found.key(i), &found.objects[i]
		p.found++
		if r.sent {
			p.sent++
		}
		if r.err != nil {
			p.failures = append(p.failures, failure{key.String(), target.Explain(p.client.Host, r.err)})
			continue
		}
		if len(p.waiting) < mostShown {
			p.waiting = append(p.waiting, key.String()+note(circumstances(o)))
			p.seen = append(p.seen, watch.Seen{
				Client: p.client, Mapping: found.mapping, Key: key, ResourceVersion: o.GetResourceVersion(),
			})
		}
	}
}

// move makes the next move about one object. One that was exchanged or went away meanwhile is left to the next pass.
func (p *pass) move(ctx context.Context, objects metadata.ResourceInterface, o metav1.Object) (sent bool, err error) {
	uid := o.GetUID()
	switch {
	case o.GetDeletionTimestamp() == nil:
		background := metav1.DeletePropagationBackground
		err = objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
		})
	case p.force && len(o.GetFinalizers()) > 0:
		var document []byte
		if document, err = json.Marshal(tied(withoutFinalizers(), uid)); err == nil {
			_, err = objects.Patch(ctx, o.GetName(), types.MergePatchType, document, metav1.PatchOptions{FieldManager: fieldManager})
		}
	default:
		return false, nil
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, err
	}
	return true, nil
}

// stillThere names what the pass has found: the first few objects and how many more there are.
func (p *pass) stillThere() []string {
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
