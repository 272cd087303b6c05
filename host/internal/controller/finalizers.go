package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// addFinalizers adds the finalizers before anything is deployed for the item: to the item, and to what its deletion
// reads. An item that cannot be deployed does not come here, and can be deleted at once.
func (j *job) addFinalizers(ctx context.Context, call plugin.Call) error {
	if !j.deploys() {
		return nil
	}
	if err := j.addFinalizer(ctx); err != nil || j.r.options.Keeper == nil {
		return err
	}
	used := []client.Object{call.Context}
	if call.Target != nil {
		used = append(used, call.Target.Target)
	}
	err := j.r.options.Keeper.Keep(ctx, used...)
	if apierrors.IsForbidden(err) { // that it can be deleted in any order is not worth a failure
		j.r.recorder.Record(j.item, corev1.EventTypeWarning, "ReferenceNotKept",
			err.Error()+"; delete the deploy item before it, or give the host this permission")
		return nil
	}
	return err
}

func (j *job) addFinalizer(ctx context.Context) error {
	return j.write(ctx, func() error {
		if j.stored == nil {
			return j.r.items.AddFinalizer(ctx, j.item)
		}
		if err := j.r.items.AddFinalizer(ctx, j.stored); err != nil {
			return err
		}
		j.stored.ObjectMeta.DeepCopyInto(&j.item.ObjectMeta)
		return nil
	})
}

// hasFinalizer reports whether the item has Landscaper's finalizer, and so may have reached a deployer.
func (j *job) hasFinalizer() bool {
	return controllerutil.ContainsFinalizer(j.item, v1alpha1.Finalizer)
}
