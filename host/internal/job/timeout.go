package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// endPickup ends a job that nobody has picked up.
func (s *setter) endPickup(ctx context.Context, item *v1alpha1.DeployItem) error {
	e := pickupError(s.options.PickupTimeout)
	missing, err := s.targetMissing(ctx, item)
	if err != nil {
		return err
	}
	if missing {
		e.Operation = contract.OperationResolve // the item gets a new job when it is there
		e.Message += ", probably because the referenced Target does not exist"
	}
	return s.end(ctx, item, e, func(status *v1alpha1.DeployItemStatus) {
		// Otherwise the item would need the next job at once, for what has just failed.
		status.ObservedGeneration = item.Generation
		// They are of the job before, which is not picked up anew.
		status.LastError, status.FirstError, status.LastErrors = nil, nil, nil
	})
}

// endProgressing ends a job whose deployer is dead.
func (s *setter) endProgressing(ctx context.Context, item *v1alpha1.DeployItem) error {
	return s.end(ctx, item, progressingError(item), func(*v1alpha1.DeployItemStatus) {})
}

// end writes down that the job has failed. A job that was picked up or ended meanwhile is kept by the resourceVersion.
func (s *setter) end(ctx context.Context, item *v1alpha1.DeployItem, e contract.Error, change func(*v1alpha1.DeployItemStatus)) error {
	err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) {
		change(&item.Status)
		contract.Fail(item, item.DeletionTimestamp != nil, e, s.clock.Now())
	})
	if err != nil {
		return fmt.Errorf("end job: %w", err)
	}
	s.log.Warn("ended job that no deployer has ended", "deployitem", item.Namespace+"/"+item.Name, "jobID", item.Status.JobID,
		"reason", e.Reason, "message", e.Message)
	return nil
}

// writeStatus writes a change of the status of an item, which becomes the one that was written.
func (s *setter) writeStatus(ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItem)) error {
	after := item.DeepCopy()
	change(after)
	patch, err := statusPatch(item, after)
	if err != nil {
		return err
	}
	return s.client.Status().Patch(ctx, item, patch)
}

// statusPatch is the JSON merge patch of what has changed, with the resourceVersion as its condition.
func statusPatch(before, after *v1alpha1.DeployItem) (client.Patch, error) {
	difference, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		return nil, fmt.Errorf("compute patch: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(difference, &fields); err != nil {
		return nil, fmt.Errorf("compute patch: %w", err)
	}
	if status, ok := fields["status"].(map[string]any); ok {
		status["observedGeneration"] = after.Status.ObservedGeneration // required by the schema
	}
	patch, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("compute patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, patch), nil
}

// targetMissing tells whether the item names a Target that does not exist.
func (s *setter) targetMissing(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	if item.Spec.Target == nil || item.Spec.Target.Name == "" {
		return false, nil
	}
	err := s.client.Get(ctx, types.NamespacedName{Namespace: item.Namespace, Name: item.Spec.Target.Name}, &v1alpha1.Target{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("look for the Target of a job that nobody has picked up: %w", err)
	}
	return err != nil, nil
}

func pickupError(timeout time.Duration) contract.Error {
	return contract.Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout},
		Operation: "WaitingForPickup",
		Reason:    contract.ReasonPickupTimeout,
		Message:   fmt.Sprintf("no deployer has reconciled this deployitem within %v seconds", timeout.Seconds()),
	}
}

func progressingError(item *v1alpha1.DeployItem) contract.Error {
	message := "the deployer"
	if deployer := item.Status.Deployer; deployer.Name != "" {
		message = fmt.Sprintf("the deployer %s (%s)", deployer.Name, deployer.Identity)
	}
	message += " has not ended the job in time and counts as dead"
	if waitingFor := contract.WaitingFor(item); waitingFor != "" {
		message += "; it was waiting for: " + waitingFor
	}
	return contract.Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout},
		Operation: "Timeout",
		Reason:    contract.ReasonProgressingTimeout,
		Message:   message,
	}
}
