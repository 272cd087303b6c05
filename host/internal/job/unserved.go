package job

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// tellUnserved writes on an item that needs something that nobody serves its type, and tells when it needs another
// look; zero for never.
func (s *setter) tellUnserved(ctx context.Context, item *v1alpha1.DeployItem) (time.Duration, error) {
	key, now := client.ObjectKeyFromObject(item), s.clock.Now()
	s.memory.setPatient(key, false)
	message, v := s.options.unserved(item.Spec.Type), decide(item, known{}, s.options, now)
	asked := item.Status.JobID == item.Status.JobIDFinished && // else whoever has the job hears it when that ends
		item.Annotations[v1alpha1.OperationAnnotation] != "" && contract.UnknownOperation(item) == ""
	if !asked && (v.need == needNothing || v.need == needPatience) {
		s.memory.drop(key)
		return v.again, s.judge(ctx, item)
	}
	if message == "" || contract.Unserved(item) != "" { // others may serve other types, and say so
		s.memory.drop(key)
		return 0, s.judge(ctx, item)
	}
	if wait := s.memory.seenUnserved(key, now).Add(s.options.UnservedGrace).Sub(now); wait > 0 {
		return wait, nil
	}
	err := s.writeStatus(ctx, item, func(item *v1alpha1.DeployItem) { contract.SetUnserved(item, message, now) })
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return pause, nil
	case err != nil:
		return 0, fmt.Errorf("note that nobody serves the type of the deploy item: %w", err)
	}
	s.memory.drop(key)
	s.recorder.Eventf(item, nil, corev1.EventTypeWarning, contract.ReasonTypeNotServed, "SetJob", "%s", message)
	return 0, s.judge(ctx, item)
}
