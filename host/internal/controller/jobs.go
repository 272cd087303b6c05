package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// jobRun is a job after a run.
type jobRun struct {
	item  *v1alpha1.DeployItem
	known entry
	hooks *hookRun
	gone  bool
}

// runJob carries on an item's job. The run has the item also after an error.
func (r *reconciler) runJob(
	ctx context.Context, item *v1alpha1.DeployItem, known entry, decision contract.Decision, hooks *hookRun,
) (*jobRun, error) {
	runner := &job.Runner{
		Plugin: r.plugin, Items: r.items, Changes: changes{r}, Exports: r.exports, Targets: r.targets, Locks: r.locks,
		Slots: r.slots, HTTPHooks: r.options.HTTPHooks, Keeper: r.options.Keeper, Events: r.recorder, Clock: r.clock,
		Random: r.random, NewJobID: r.newJobID, Log: r.log, JobEnded: r.options.JobEnded,
		UnknownOperation: r.reportUnknownOperation,
		Options: job.Options{
			Identity: r.options.Identity, MaxCrashes: r.options.MaxCrashes, Selective: !r.options.Selectors.Empty(),
			Standalone: r.options.Standalone,
		},
	}
	result, err := runner.Run(ctx, job.Task{
		Item: item, Decision: decision, Hooks: hooks, Progress: job.Progress{
			Since: known.since, Retries: known.retries, Due: known.due, WaitsFor: known.waitsFor,
		},
	})
	known.since, known.retries, known.due, known.waitsFor = result.Since, result.Retries, result.Due, result.WaitsFor
	return &jobRun{item: result.Item, known: known, hooks: hooks, gone: result.Gone}, err
}

// changes shows a job the changes of its item.
type changes struct{ r *reconciler }

// Subscribe implements job.Changes.
func (c changes) Subscribe(item types.NamespacedName) (signals <-chan struct{}, end func()) {
	return c.r.memory.subscribe(item)
}

// IsCurrent implements job.Changes.
func (c changes) IsCurrent(ctx context.Context, item *v1alpha1.DeployItem) bool {
	cached := &v1alpha1.DeployItem{}
	err := c.r.cache.Get(ctx, client.ObjectKeyFromObject(item), cached, client.UnsafeDisableDeepCopy)
	return err == nil && cached.UID == item.UID && !contract.Newer(cached.ResourceVersion, item.ResourceVersion)
}

var _ job.Hooks = (*hookRun)(nil)

// Has implements job.Hooks.
func (p *hookRun) Has(types ...sdkhook.Type) bool { return p.hooks.Has(types...) }

// Run implements job.Hooks.
func (p *hookRun) Run(ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem) (*job.Held, error) {
	p.item = item
	result, err := p.run(ctx, t)
	if err != nil || !pluginhook.Aborts(result) {
		return nil, err
	}
	return &job.Held{Plugins: p.aborting, Message: heldBy(t, p.aborting, result)}, nil
}

// ReportError implements job.Hooks.
func (p *hookRun) ReportError(item *v1alpha1.DeployItem, err error) { p.r.reportHook(item, err) }
