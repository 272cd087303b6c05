package job

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// setter sets the jobs of deploy items, and ends those that no deployer ends.
type setter struct {
	live   client.Reader
	cache  client.Reader // metadata of deploy items
	client client.Client
	// newMetadata returns an empty object for what is in the cache.
	newMetadata func() *metav1.PartialObjectMetadata
	serves      func(v1alpha1.DeployItemType) bool
	options     Options
	clock       clock.PassiveClock
	recorder    events.EventRecorder
	log         *slog.Logger
	memory      *memory
	// held: what was there at the start waits for the end of the survey.
	held atomic.Bool
}

var _ reconcile.Reconciler = (*setter)(nil)

// Reconcile gives an item what it needs. Nothing is decided from a cache but not to read what has not changed: each write is
// conditional on what was read here.
func (s *setter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if spared, err := s.spares(ctx, req.NamespacedName); err != nil || spared {
		return reconcile.Result{}, err
	}
	// Patience comes before the look: the job under way may end right after it.
	s.memory.setPatient(req.NamespacedName, true)
	item := &v1alpha1.DeployItem{}
	if err := s.live.Get(ctx, req.NamespacedName, item); err != nil {
		s.memory.setPatient(req.NamespacedName, false)
		if apierrors.IsNotFound(err) {
			s.memory.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read deploy item: %w", err)
	}
	var after time.Duration
	var err error
	switch {
	case !s.options.elected(item.Spec.Type):
		s.memory.drop(req.NamespacedName)
		err = s.judge(ctx, item)
	case !s.serves(item.Spec.Type):
		after, err = s.tellUnserved(ctx, item)
	default:
		after, err = s.attend(ctx, item)
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// attend gives an item what it needs that was just read, and tells when it needs another look; zero for never.
func (s *setter) attend(ctx context.Context, item *v1alpha1.DeployItem) (time.Duration, error) {
	now := s.clock.Now()
	v := decide(item, s.memory.see(item, now), s.options, now)
	if v.need != needPatience {
		s.memory.setPatient(client.ObjectKeyFromObject(item), false)
	}
	ended, err := s.provide(ctx, item, v.need)
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return pause, nil
	case err != nil:
		return 0, err
	case ended: // the item may need the next job
		return pause, nil
	}
	if err := s.judge(ctx, item); err != nil {
		return 0, err
	}
	return v.again, nil
}

// provide gives an item what it needs, and tells whether it has ended its job by that.
func (s *setter) provide(ctx context.Context, item *v1alpha1.DeployItem, needs need) (ended bool, err error) {
	if err := s.annotate(ctx, item); err != nil {
		return false, err
	}
	if contract.Unserved(item) != "" {
		if err := s.writeStatus(ctx, item, contract.SetServed); err != nil {
			return false, fmt.Errorf("note that the type of the deploy item is served: %w", err)
		}
	}
	switch needs {
	case needJob:
		return false, s.setJob(ctx, item)
	case needPickupTimeout:
		return true, s.endPickup(ctx, item)
	case needProgressingTimeout:
		return true, s.endProgressing(ctx, item)
	case needNothing, needPatience:
	}
	return false, nil
}

// annotate brings the annotations up to date in which an item repeats what a deployer must know of it.
func (s *setter) annotate(ctx context.Context, item *v1alpha1.DeployItem) error {
	if annotated(item) {
		return nil
	}
	before := item.DeepCopy()
	if item.Annotations == nil {
		item.Annotations = map[string]string{}
	}
	for key, value := range responsibility.Annotations(item) {
		item.Annotations[key] = value
	}
	if err := s.client.Patch(ctx, item, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("annotate deploy item with its type and target: %w", err)
	}
	return nil
}

// setJob sets a new job.
func (s *setter) setJob(ctx context.Context, item *v1alpha1.DeployItem) error {
	now := v1alpha1.NewTime(s.clock.Now())
	jobID := uuid.NewString()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": item.ResourceVersion},
		"status": map[string]any{
			"jobID":               jobID,
			"jobIDGenerationTime": now,
			// The deployer takes a job without initTime for one that nobody has picked up.
			"transitionTimes":    map[string]any{"triggerTime": now, "initTime": nil, "waitTime": nil, "finishedTime": nil},
			"observedGeneration": item.Status.ObservedGeneration, // required by the schema
		},
	})
	if err != nil {
		return fmt.Errorf("marshal job: %w", err)
	}
	if err := s.client.Status().Patch(ctx, item, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set job: %w", err)
	}
	s.memory.setFor(item, jobID)
	s.log.Info("set job", "deployitem", item.Namespace+"/"+item.Name, "jobID", jobID, "deletion", item.DeletionTimestamp != nil)
	return nil
}
