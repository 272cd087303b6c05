package registration

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// binding is the hook of one registration, and what it is made of. All but stale belongs to the goroutine of Registry.Start.
type binding struct {
	registry *Registry

	uid        types.UID
	generation int64
	// hook is nil as long as there is a problem.
	hook    *httphook.Hook
	problem *NotReadyError
	// recipe is that of hook.
	recipe  *recipe
	watches map[object]context.CancelFunc
	// stale: an object that the hook is made of has changed, or may have.
	stale atomic.Bool
	// due is when everything is read anew in any case.
	due     time.Time
	retries backoff
}

// refresh brings the hook up to date if there is a reason to. A hook that would be the same as before is the same, with its
// connections.
func (b *binding) refresh(ctx context.Context, registration *v1alpha1.DeployerRegistration) {
	clock := b.registry.options.Clock
	same := b.uid == registration.UID && b.generation == registration.Generation
	if same && !b.stale.Load() && clock.Now().Before(b.due) {
		return
	}
	b.stale.Store(false)
	b.uid, b.generation = registration.UID, registration.Generation
	b.watch(ctx, objectsOf(registration.Spec.Hook))
	next, problem := b.registry.prepare(ctx, registration)
	if ctx.Err() != nil {
		return // the host stops, which says nothing about the hook
	}
	before := b.hook
	switch {
	case problem != nil:
		b.hook = nil
	case !reflect.DeepEqual(next, b.recipe):
		b.hook, problem = b.registry.hook(registration, next)
	}
	b.note(registration.Name, b.hook != before, problem)
	b.recipe, b.problem = next, problem
	if problem != nil {
		b.recipe = nil
	}
	if before != nil && before != b.hook {
		before.Close()
	}
}

// note says what is new, and when to look again.
func (b *binding) note(name string, changed bool, problem *NotReadyError) {
	log, now := b.registry.options.Log.With("registration", name), b.registry.options.Clock.Now()
	if problem != nil {
		if !problem.says(b.problem) {
			log.Warn("an HTTP hook is not ready", "reason", problem.Reason, "error", problem.Message)
		}
		b.due = now.Add(b.retries.fail())
		return
	}
	if changed {
		log.Info("an HTTP hook is ready", "url", b.hook.URL())
	}
	b.retries = backoff{}
	b.due = now.Add(refreshInterval)
}

// watch watches these objects and no others. A watch begins with the object as it is, so that nothing is missed.
func (b *binding) watch(ctx context.Context, objects []object) {
	kept := map[object]context.CancelFunc{}
	for _, o := range objects {
		if kept[o] != nil { // one secret for two things
			continue
		}
		if stop := b.watches[o]; stop != nil {
			kept[o] = stop
			delete(b.watches, o)
			continue
		}
		watching, stop := context.WithCancel(ctx)
		kept[o] = stop
		b.registry.watches.Go(func() { b.registry.watch(watching, o, b.touch) })
	}
	b.unwatch()
	b.watches = kept
}

// unwatch ends the watches.
func (b *binding) unwatch() {
	for _, stop := range b.watches {
		stop()
	}
	b.watches = nil
}

// touch has the hook brought up to date. It does not block.
func (b *binding) touch() {
	b.stale.Store(true)
	b.registry.LookAgain()
}

// release gives back what the binding has. Calls of the hook that are under way go on.
func (b *binding) release() {
	b.unwatch()
	if b.hook != nil {
		b.hook.Close()
	}
}
