package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// outdatedPause lets the write settle that ours met before the item is read again.
const outdatedPause = 10 * time.Millisecond

// reconciler carries out the deploy items of one plugin.
type reconciler struct {
	name     string // of the plugin
	identity string

	cache    client.Reader // metadata of deploy items
	live     client.Reader
	writer   *writer
	exports  *exporter
	targets  *target.Resolver
	plugins  plugins
	router   *router
	memory   *memory
	recorder events.EventRecorder
	clock    clock.Clock
	random   func() float64
	log      *slog.Logger
}

var _ reconcile.Reconciler = (*reconciler)(nil)

// Reconcile takes one look at a deploy item and does what is to be done with it. The numbers are those of the design's "way of
// a DeployItem"; hooks (2, 6, 10, 14) and locks (7) have their places between them.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// 1, 3: metadata alone tells whether there is anything to look at, and for whom.
	meta := NewMetadata()
	if err := r.cache.Get(ctx, req.NamespacedName, meta); err != nil {
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	itemType, typed := r.router.typeOf(meta)
	p := r.servedHere(itemType)
	if !typed || p == nil {
		return reconcile.Result{}, nil
	}
	known, current := r.memory.recall(req.NamespacedName, meta.UID, meta.ResourceVersion)
	if current && known.item == nil {
		return reconcile.Result{}, nil
	}
	if wait := known.due.Sub(r.clock.Now()); current && wait > 0 {
		return pollAfter(wait), nil
	}

	// 5: the item in full, and what is to be done with it.
	if !current {
		item := &v1alpha1.DeployItem{}
		if err := r.live.Get(ctx, req.NamespacedName, item); err != nil {
			r.memory.forget(req.NamespacedName)
			if apierrors.IsNotFound(err) {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, fmt.Errorf("read deploy item: %w", err)
		}
		if p = r.servedHere(item.Spec.Type); p == nil { // its metadata does not tell the truth
			r.memory.forget(req.NamespacedName)
			r.router.classify(item)
			return reconcile.Result{}, nil
		}
		known = r.memory.previous(req.NamespacedName, item.UID)
		known.item = item
	}
	decision := contract.Decide(known.item, r.clock.Now())
	if decision.Action == contract.Nothing {
		r.memory.idle(known.item)
		return reconcile.Result{}, nil
	}

	// 8 to 13: the job.
	j := r.newJob(p, r.memory.begin(known, r.name), decision)
	err := j.run(ctx)
	return r.conclude(ctx, req, j, err)
}

// conclude remembers what has come of a job's step and says when to look at the item again.
func (r *reconciler) conclude(ctx context.Context, req reconcile.Request, j *job, err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, errOutdated):
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{RequeueAfter: outdatedPause}, nil
	case ctx.Err() != nil: // the host is shutting down; another one goes on from what is written
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil //nolint:nilerr // the error is the shutdown, or comes of it
	case err != nil:
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, err
	case j.gone:
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	case j.finished():
		r.memory.idle(j.item)
		return reconcile.Result{}, nil
	}
	due := r.memory.underWay(j.entry, r.clock.Now())
	return pollAfter(max(due.Sub(r.clock.Now()), time.Millisecond)), nil
}

func pollAfter(wait time.Duration) reconcile.Result {
	priority := priorityPoll
	return reconcile.Result{RequeueAfter: wait, Priority: &priority}
}

// servedHere returns this reconciler's plugin if it serves a type, and nil if not.
func (r *reconciler) servedHere(itemType v1alpha1.DeployItemType) deployer {
	if p := r.plugins.For(itemType); p != nil && p.Name() == r.name {
		return p
	}
	return nil
}

func (r *reconciler) newJob(p deployer, known entry, decision contract.Decision) *job {
	return &job{
		reconciler: r,
		plugin:     p,
		entry:      known,
		decision:   decision,
		log: r.log.With(
			"deployitem", known.item.Namespace+"/"+known.item.Name,
			"jobID", known.item.Status.JobID,
		),
	}
}

const (
	firstRetry = time.Second
	maxRetry   = time.Minute
)

// retryPause is the pause after so many failures in a row: it doubles from a second to a minute. random, from [0, 1), takes up
// to a fifth off, so that what fails together does not come back together.
func retryPause(failures int, random float64) time.Duration {
	pause := maxRetry
	if failures < 6 {
		pause = min(firstRetry<<failures, maxRetry)
	}
	return pause - time.Duration(random*float64(pause)/5)
}

// defaultRandom is used unless a test brings its own.
func defaultRandom() float64 { return rand.Float64() } //nolint:gosec // jitter is no secret
