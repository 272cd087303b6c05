package registration

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// installInterval is how often a missing CustomResourceDefinition is looked for.
	installInterval = time.Minute
	// listInterval is how often a list is tried again that the API server has refused.
	listInterval = 10 * time.Second
	// refreshInterval is how often everything is read anew that a hook is made of, although no watch tells of a change.
	refreshInterval = 30 * time.Second
	// restInterval comes between two looks, so that whatever changes, and however often, costs a bounded number of requests: at most one
	// write of each status in this time.
	restInterval = time.Second
)

// Start keeps the hooks ready until ctx ends. It blocks until then.
func (r *Registry) Start(ctx context.Context) error {
	defer r.end()
	registrations := r.awaitRegistrations(ctx)
	if registrations == nil {
		return nil
	}
	handler, err := registrations.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { r.LookAgain() },
		UpdateFunc: func(_, _ any) { r.LookAgain() },
		DeleteFunc: func(any) { r.LookAgain() },
	})
	if err != nil {
		return fmt.Errorf("watch DeployerRegistrations: %w", err)
	}
	r.lookAlways(ctx)
	if err := registrations.RemoveEventHandler(handler); err != nil {
		return fmt.Errorf("end the watch of DeployerRegistrations: %w", err)
	}
	return nil
}

// end waits for the watches, whose context has ended, and gives the connections back.
func (r *Registry) end() {
	for _, b := range r.bindings {
		b.release()
	}
	r.watches.Wait()
}

// awaitRegistrations blocks until the registrations are known, and returns what watches them; nil if ctx ends before. As long as there is
// no such kind there are none.
func (r *Registry) awaitRegistrations(ctx context.Context) cache.Informer {
	told := ""
	for {
		informer, err := r.registrations(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			return informer
		}
		pause := listInterval
		switch {
		case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
			pause = installInterval
			if told == "" {
				r.options.Log.Info("the cluster has no DeployerRegistrations, and HTTP hooks are not called; " +
					"`pergola crds --only deployerregistrations` prints the CustomResourceDefinition that is missing")
			}
			r.publish(table{})
			told = "missing"
		case told != "missing" || apierrors.IsForbidden(err): // else there were none a moment ago
			problem := fmt.Errorf("the DeployerRegistrations cannot be listed, which the host needs to get, list and watch: %w", err)
			if told != problem.Error() {
				r.options.Log.Error("HTTP hooks are not known", "error", problem.Error())
				told = problem.Error()
			}
			r.unpublish(problem)
		}
		if !r.sleep(ctx, pause) {
			return nil
		}
	}
}

// registrations watches the registrations, and blocks until it knows them. It asks first: a watch that is refused says nothing.
func (r *Registry) registrations(ctx context.Context) (cache.Informer, error) {
	if err := r.options.Client.List(ctx, &v1alpha1.DeployerRegistrationList{}, client.Limit(1)); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	informer, err := r.options.Cache.GetInformer(ctx, &v1alpha1.DeployerRegistration{})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return informer, nil
}

// lookAlways looks at the registrations whenever there is a reason to, until ctx ends.
func (r *Registry) lookAlways(ctx context.Context) {
	for {
		next := r.look(ctx)
		if !r.sleep(ctx, restInterval) {
			return
		}
		timer := r.options.Clock.NewTimer(next - restInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		case <-r.wake:
			timer.Stop()
		}
	}
}

// sleep waits; false if ctx has ended.
func (r *Registry) sleep(ctx context.Context, pause time.Duration) bool {
	timer := r.options.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return ctx.Err() == nil
	}
}

// look brings everything up to date, and returns how long it stays so if nothing happens.
func (r *Registry) look(ctx context.Context) time.Duration {
	list := &v1alpha1.DeployerRegistrationList{}
	if err := r.options.Cache.List(ctx, list); err != nil {
		if ctx.Err() == nil {
			r.options.Log.Error("the DeployerRegistrations cannot be listed in the cache; it is tried again", "error", err.Error())
		}
		return listInterval
	}
	registrations := list.Items
	slices.SortFunc(registrations, inOrder)
	settled := claimsOf(registrations)
	gone := r.bind(ctx, registrations)
	if ctx.Err() != nil {
		return refreshInterval
	}
	r.publish(r.answers(settled))
	for _, b := range gone {
		b.release()
	}
	next := refreshInterval
	for _, b := range r.bindings {
		next = min(next, b.due.Sub(r.options.Clock.Now()))
	}
	if r.options.Elected() && !r.report(ctx, registrations, settled) {
		return max(restInterval, min(next, r.writes.fail()))
	}
	r.writes = backoff{}
	return max(restInterval, next)
}

// bind brings the bindings of all registrations up to date, and returns those of registrations whose hook is gone.
func (r *Registry) bind(ctx context.Context, registrations []v1alpha1.DeployerRegistration) []*binding {
	kept := map[string]*binding{}
	for i := range registrations {
		if registrations[i].Spec.Hook == nil {
			continue
		}
		name := registrations[i].Name
		b := r.bindings[name]
		if b == nil {
			b = &binding{registry: r}
		}
		b.refresh(ctx, &registrations[i])
		kept[name] = b
	}
	var gone []*binding
	for name, b := range r.bindings {
		if kept[name] == nil {
			gone = append(gone, b)
			r.options.Log.Info("an HTTP hook is not registered any more", "registration", name)
			if r.options.Metrics != nil {
				r.options.Metrics.Forget(name)
			}
		}
	}
	r.bindings = kept
	return gone
}

// answers are those that follow from the bindings.
func (r *Registry) answers(settled claims) table {
	answers := table{}
	for itemType, name := range settled {
		b := r.bindings[name]
		answers[itemType] = answer{hook: b.hook, problem: b.problem}
	}
	return answers
}
