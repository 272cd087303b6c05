package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// outdatedPause lets the write settle that ours met before the item is read again. It doubles with each time in a row, up to
// maxOutdatedPause.
const (
	outdatedPause    = 10 * time.Millisecond
	maxOutdatedPause = 5 * time.Second
)

// reconciler carries out the deploy items of one plugin.
type reconciler struct {
	name         string // of the plugin
	identity     string
	selectors    responsibility.Selectors
	abortTimeout time.Duration

	cache    client.Reader // metadata of deploy items, Targets, Contexts
	live     client.Reader
	writer   *writer
	exports  *exporter
	targets  *target.Resolver
	plugins  plugins
	router   *router
	memory   *memory
	slots    *slots
	recorder events.EventRecorder
	clock    clock.WithTicker
	random   func() float64
	newJobID func() string
	log      *slog.Logger
}

var _ reconcile.Reconciler = (*reconciler)(nil)

// Reconcile takes one look at a deploy item and does what is to be done with it. The numbers are those of the design's "way of
// a DeployItem"; hooks (2, 6, 10, 14) and locks (7) have their places between them.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	turn := r.slots.hasTurn(req.NamespacedName)
	defer func() { r.router.turn(r.name, r.slots.settle(req.NamespacedName, turn)) }()

	// 1, 3, 4: metadata alone tells whether there is anything to look at, and for whom.
	meta := NewMetadata()
	if err := r.cache.Get(ctx, req.NamespacedName, meta); err != nil {
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	itemType, typed := r.router.typeOf(meta)
	if !typed || r.servedHere(itemType) == nil {
		return reconcile.Result{}, nil
	}
	if ours, err := r.mayBeOurs(ctx, meta); err != nil || !ours {
		return reconcile.Result{}, err
	}
	known, current := r.memory.recall(req.NamespacedName, meta.UID, meta.ResourceVersion)
	if current && known.item == nil {
		return reconcile.Result{}, nil
	}
	if wait := known.due.Sub(r.clock.Now()); current && wait > 0 && !turn {
		return pollAfter(wait), nil
	}

	// 5: the item in full, and what is to be done with it.
	if !current {
		item, err := r.read(ctx, req)
		if item == nil || err != nil {
			return reconcile.Result{}, err
		}
		known = r.memory.previous(req.NamespacedName, item.UID)
		known.item = item
	}
	p := r.servedHere(known.item.Spec.Type)
	if p == nil { // the item disappears from here: a plugin has gone
		return reconcile.Result{}, nil
	}
	decision, err := r.decide(ctx, &known)
	if err != nil {
		return r.conclude(ctx, req, nil, err)
	}
	if decision.Action == contract.Restart { // what is missing is still missing; its coming is an event
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	}
	if decision.Action == contract.Nothing {
		r.memory.idle(known)
		return reconcile.Result{}, nil
	}

	// 8 to 13: the job.
	j := r.newJob(p, r.memory.begin(known, r.name), decision)
	return r.conclude(ctx, req, j, j.run(ctx))
}

// read reads an item in full. It returns nil without an error for one that is gone, or that turns out not to be ours.
func (r *reconciler) read(ctx context.Context, req reconcile.Request) (*v1alpha1.DeployItem, error) {
	item := &v1alpha1.DeployItem{}
	if err := r.live.Get(ctx, req.NamespacedName, item); err != nil {
		r.memory.forget(req.NamespacedName)
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // an item that is gone is an ordinary case and no error
		}
		return nil, fmt.Errorf("read deploy item: %w", err)
	}
	if r.servedHere(item.Spec.Type) == nil { // its metadata does not tell the truth
		r.memory.forget(req.NamespacedName)
		r.router.classify(item)
		return nil, nil //nolint:nilnil // see above
	}
	if ours, err := r.isOurs(ctx, item); err != nil || !ours {
		r.memory.forget(req.NamespacedName)
		return nil, err
	}
	return item, nil
}

// mayBeOurs tells from metadata whether an item may be one that this host is meant for. One whose Target is missing is so only if
// it was claimed before: a job under way goes on, and what was deployed is deleted, although the Target is gone. A Target that
// is there and not selected is the matter of another host, whatever was before.
func (r *reconciler) mayBeOurs(ctx context.Context, meta *metav1.PartialObjectMetadata) (bool, error) {
	target, has, known := responsibility.TargetOf(meta)
	if !known {
		return true, nil
	}
	selection, err := r.selection(ctx, meta, target, has)
	missing := selection.Reason == responsibility.ReasonTargetNotFound
	return selection.Responsible || missing && (wroteStatus(meta) || meta.DeletionTimestamp != nil), err
}

// isOurs tells the same from the item in full.
func (r *reconciler) isOurs(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	target, has := responsibility.TargetOfItem(item)
	selection, err := r.selection(ctx, item, target, has)
	return selection.Responsible || selection.Reason == responsibility.ReasonTargetNotFound && r.claimed(item), err
}

// claimed tells whether this host has picked the item's job up, or has deployed what is now to be deleted.
func (r *reconciler) claimed(item *v1alpha1.DeployItem) bool {
	if item.Status.Deployer.Identity != r.identity {
		return false
	}
	return contract.IsUnderWay(item) || item.DeletionTimestamp != nil && slices.Contains(item.Finalizers, v1alpha1.Finalizer)
}

// selection tells whether this host is meant for items of a Target. Without selectors it is, and the Target is not looked at.
func (r *reconciler) selection(ctx context.Context, item metav1.Object, name string, has bool) (responsibility.Decision, error) {
	if r.selectors.Empty() || !has {
		return r.selectors.Decide(has, nil), nil
	}
	found := &v1alpha1.Target{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: item.GetNamespace(), Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		return responsibility.Decision{}, fmt.Errorf("read Target: %w", err)
	}
	var object metav1.Object
	if err == nil {
		object = found
	}
	decision := r.selectors.Decide(true, object)
	if !decision.Responsible {
		r.log.Debug("deploy item is not for this host", "deployitem", item.GetNamespace()+"/"+item.GetName(),
			"reason", decision.Reason, "message", decision.Message)
	}
	return decision, nil
}

// decide decides what is to be done with an item, after it has accepted what somebody asks for. It leaves Restart only if the
// item has to wait for it.
func (r *reconciler) decide(ctx context.Context, known *entry) (contract.Decision, error) {
	item := known.item
	if unknown := contract.UnknownOperation(item); unknown != known.reported {
		known.reported = unknown
		if unknown != "" {
			r.event(item, corev1.EventTypeWarning, "UnknownOperation", fmt.Sprintf(
				"the annotation %s asks for %q, which is left alone: expected %s, %s, %s or %s", v1alpha1.OperationAnnotation, unknown,
				v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile, v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort))
		}
	}
	decision := contract.Decide(item, r.clock.Now())
	if decision.Action == contract.Accept {
		if err := r.accept(ctx, item); err != nil {
			return decision, err
		}
		decision = contract.Decide(item, r.clock.Now())
	}
	if decision.Action == contract.Continue && r.takesOver(item) {
		decision.Action = contract.PickUp
	}
	if decision.Action != contract.Restart {
		return decision, nil
	}
	there, err := r.referencesThere(ctx, item)
	if there {
		decision.Action = contract.Start
	}
	return decision, err
}

// takesOver tells whether another host has picked the job up whose Target was selected by it then. That one may be in a call: it is
// fenced off by a pick-up of our own, and cancels its call.
func (r *reconciler) takesOver(item *v1alpha1.DeployItem) bool {
	return !r.selectors.Empty() && item.Status.Deployer.Identity != r.identity
}

// accept takes the annotation that asks for an operation away and notes the operation in one write, with which it begins.
func (r *reconciler) accept(ctx context.Context, item *v1alpha1.DeployItem) error {
	var operation string
	var effective bool
	err := r.writer.metadata(ctx, item, func(item *v1alpha1.DeployItem) {
		operation, effective = contract.AcceptOperation(item, r.newJobID(), r.abortTimeout, r.clock.Now())
	})
	if err != nil {
		return fmt.Errorf("accept operation: %w", err)
	}
	message := fmt.Sprintf("the operation %q begins", operation)
	if !effective {
		message = fmt.Sprintf("there is nothing to do for the operation %q: no job is under way", operation)
	}
	r.log.Info("accepted operation", "deployitem", item.Namespace+"/"+item.Name, "operation", operation, "effective", effective)
	r.event(item, corev1.EventTypeNormal, "OperationAccepted", message)
	return nil
}

// conclude remembers what has come of a job's step and says when to look at the item again.
func (r *reconciler) conclude(ctx context.Context, req reconcile.Request, j *job, err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, errOutdated):
		pause := min(outdatedPause<<min(r.memory.outdated(req.NamespacedName), 10), maxOutdatedPause)
		return reconcile.Result{RequeueAfter: pause}, nil
	case ctx.Err() != nil: // the host is shutting down; another one goes on from what is written
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil //nolint:nilerr // the error is the shutdown, or comes of it
	case err != nil:
		r.memory.outdated(req.NamespacedName)
		return reconcile.Result{}, err
	case j.gone:
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{}, nil
	case j.finished() && contract.Decide(j.item, r.clock.Now()).Action == contract.Nothing:
		r.memory.idle(j.entry)
		return reconcile.Result{}, nil
	case j.finished(): // somebody asks for more
		r.memory.forget(req.NamespacedName)
		return reconcile.Result{RequeueAfter: outdatedPause}, nil
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
