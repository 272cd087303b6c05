package job

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// setter sets the jobs of deploy items.
type setter struct {
	live   client.Reader
	client client.Client
	serves func(v1alpha1.DeployItemType) bool
	clock  clock.PassiveClock
	log    *slog.Logger

	mu sync.Mutex
	// patient are the items that need a job when the one under way has ended. A write to their status, which is of no interest
	// otherwise, may be that end.
	patient map[types.NamespacedName]bool
}

var _ reconcile.Reconciler = (*setter)(nil)

// Reconcile gives an item what it needs. Nothing is decided from a cache: each write is conditional on what was read here.
func (s *setter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	// Patience comes before the look: the job under way may end right after it.
	s.setPatient(req.NamespacedName, true)
	item := &v1alpha1.DeployItem{}
	if err := s.live.Get(ctx, req.NamespacedName, item); err != nil {
		s.setPatient(req.NamespacedName, false)
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read deploy item: %w", err)
	}
	if !s.serves(item.Spec.Type) {
		s.setPatient(req.NamespacedName, false)
		return reconcile.Result{}, nil
	}
	needs := decide(item)
	if needs != needPatience {
		s.setPatient(req.NamespacedName, false)
	}
	if err := s.provide(ctx, item, needs); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return reconcile.Result{RequeueAfter: conflictPause}, nil
		}
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}

func (s *setter) provide(ctx context.Context, item *v1alpha1.DeployItem, needs need) error {
	if err := s.annotate(ctx, item); err != nil {
		return err
	}
	if needs != needJob {
		return nil
	}
	return s.setJob(ctx, item)
}

// annotate adds the annotations that a deployer reads, where they are missing.
func (s *setter) annotate(ctx context.Context, item *v1alpha1.DeployItem) error {
	if _, ok := responsibility.TypeOf(item); ok {
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
		return fmt.Errorf("annotate deploy item with its type: %w", err)
	}
	return nil
}

// setJob sets a new job, and then takes the request for it away. In this order a crash in between sets the job twice, which
// costs one run; in the other one it would lose the request.
func (s *setter) setJob(ctx context.Context, item *v1alpha1.DeployItem) error {
	requested := asksForReconcile(item)
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
	s.log.Info("set job", "deployitem", item.Namespace+"/"+item.Name, "jobID", jobID, "deletion", item.DeletionTimestamp != nil)
	if !requested {
		return nil
	}
	return s.removeRequest(ctx, item)
}

// removeRequest takes the operation annotation away, unless it asks for something else by now. It has no other condition: the
// deployer may be writing to the item already.
func (s *setter) removeRequest(ctx context.Context, item *v1alpha1.DeployItem) error {
	path := "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.OperationAnnotation, "/", "~1")
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": item.UID},
		{"op": "test", "path": path, "value": v1alpha1.OperationReconcile},
		{"op": "remove", "path": path},
	})
	if err != nil {
		return fmt.Errorf("marshal patch: %w", err)
	}
	err = s.client.Patch(ctx, item, client.RawPatch(types.JSONPatchType, patch))
	if apierrors.IsInvalid(err) { // somebody else has changed or removed it
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove operation annotation: %w", err)
	}
	return nil
}

func (s *setter) setPatient(key types.NamespacedName, patient bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if patient {
		s.patient[key] = true
	} else {
		delete(s.patient, key)
	}
}

func (s *setter) isPatient(key types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.patient[key]
}
