package controller

import (
	"context"
	"errors"
	"log/slog"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/exports"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemevents"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// reconciler reconciles the deploy items of one plugin.
type reconciler struct {
	parts
	name           string // of the plugin
	rules          contract.Rules
	responsibility responsibility
	hooks          *hookRunner
	jobs           *job.Runner
}

// parts are the parts of a reconciler. All are required.
type parts struct {
	plugin   intake.Deployer
	plugins  intake.Plugins
	options  Options
	router   *intake.Router
	memory   *itemstate.Memory
	contents *itemstate.Contents
	slots    *slots.Slots
	locks    locks

	cache    client.Reader // slim deploy items, Targets, Contexts
	items    *itemclient.Client
	exports  *exports.Writer
	targets  *target.Resolver
	recorder *itemevents.Recorder
	clock    clock.WithTicker
	random   func() float64
	newJobID func() string
	log      *slog.Logger
}

var _ reconcile.Reconciler = (*reconciler)(nil)

func newReconciler(p parts) *reconciler {
	r := &reconciler{parts: p, name: p.plugin.Name(), rules: rules(p.options, p.clock)}
	r.responsibility = newResponsibility(p.cache, p.options)
	r.responsibility.log = p.log
	r.hooks = &hookRunner{
		options: p.options, responsibility: r.responsibility, cache: p.cache, recorder: p.recorder, clock: p.clock,
		log:         p.log,
		isPreferred: func(item *v1alpha1.DeployItem) bool { return p.locks.Rank(lockKey(r.name, item)) == 0 },
	}
	r.jobs = &job.Runner{
		Plugin: p.plugin, Items: p.items, Changes: changes{p.cache, p.memory}, Exports: p.exports, Targets: p.targets,
		Locks: p.locks, Slots: p.slots, HTTPHooks: p.options.HTTPHooks, Keeper: p.options.Keeper, Events: p.recorder,
		Clock: p.clock, Random: p.random, NewJobID: p.newJobID, Log: p.log, JobEnded: p.options.JobEnded,
		UnknownOperation: r.reportUnknownOperation,
		Options: job.Options{
			Identity: p.options.Identity, MaxCrashes: p.options.MaxCrashes, Selective: !p.options.Selectors.Empty(),
			Standalone: p.options.Standalone, Pauses: p.options.Pauses,
			DefaultTimeout: p.options.Limits[r.name].DefaultTimeout,
		},
	}
	if p.options.Standalone && p.options.Items != nil {
		r.jobs.Holders = p.options.Items
	}
	return r
}

// Reconcile does the next step for a DeployItem. The comments here, in reconcile and in package job are the steps of
// "The way of a DeployItem" in docs/architecture.md.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// 1. An event comes to the queue of the plugin that serves the item.
	ctx, over := r.options.Observed.StartReconcile(ctx, telemetry.Job{Plugin: r.name, Item: req.NamespacedName})
	defer over()
	slotReserved := r.slots.IsReserved(req.NamespacedName)
	defer func() { r.router.SlotsReserved(r.name, r.slots.EndReconcile(req.NamespacedName, slotReserved)) }()

	result, err := r.reconcile(ctx, req, slotReserved)
	if errors.Is(err, job.ErrAbandoned) {
		return reconcile.Result{}, nil // the lock stays until the plugin has ended
	}

	// 15. The lock is released, unless the job goes on.
	if !r.unlock(ctx, req.NamespacedName) && err == nil {
		result.RequeueAfter = unlockRetry
	}
	return result, err
}

func (r *reconciler) reconcile(
	ctx context.Context, req reconcile.Request, slotReserved bool,
) (reconcile.Result, error) {
	// 2. The cache says which Target the item has, and so whether this host may be responsible for it.
	cached, hooks, err := r.cached(ctx, req)
	if cached == nil || err != nil {
		return reconcile.Result{}, err
	}

	// 3. An item that is idle, not due, or left to another replica is not read.
	known := r.memory.Recall(req.NamespacedName, cached.UID)
	if wait, skip := r.skip(cached, known, slotReserved, hooks); skip {
		return wait, nil
	}

	// 4. The item is read in full, unless it has arrived or is known, and contract.Decide decides what to do with it.
	full, known, err := r.inFull(ctx, cached, known)
	if full.Item == nil {
		return r.afterError(ctx, req, nil, err)
	}
	item := full.Item
	decision := r.rules.Decide(item)
	if r.clock.Now().Before(known.Hooks.Paused) && !decision.EndsJob() {
		return r.until(r.orDeadline(item, known.Hooks.Paused)), nil
	}

	// 5. Hooks run before and around the check of responsibility.
	run, err := r.hooks.begin(ctx, hooks.About(item), item, decision)
	if err != nil {
		return r.afterHookError(ctx, req, item, err)
	} else if !run.goesOn {
		return r.endedByHooks(item, run), nil
	}

	// 6. An operation that a user requests by annotation is accepted.
	if decision, err = r.accept(ctx, full, decision); err != nil {
		return r.afterError(ctx, req, nil, err)
	} else if decision.Action == contract.Restart { // something is still missing; when it comes there is an event
		r.forget(req.NamespacedName, false)
		return reconcile.Result{}, nil
	}

	// 7. ShouldReconcile hooks may request a job for an idle item.
	if decision, err = run.shouldReconcile(ctx, &known.Hooks, decision); err != nil {
		return r.afterHookError(ctx, req, item, err)
	} else if decision.Action == contract.Nothing {
		return r.afterNothing(item, hooks, known.Hooks, run), nil
	}

	// 8 to 14. The job goes one step on.
	known = r.memory.Begin(item, known, r.name)
	result, err := r.jobs.Run(ctx, job.Task{Item: item, Decision: decision, Hooks: run, Progress: known.Progress})
	known.Progress = result.Progress
	if err != nil {
		return r.afterError(ctx, req, result.Item, err)
	}
	return r.afterRun(req, result, known, run), nil
}
