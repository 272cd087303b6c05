package deployer

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/sdk"
)

// errStopping is the error about objects to be removed after the stop of Pods. The host calls again.
var errStopping = errors.New("there are Pods that have not stopped yet")

// Holdings returns the items with objects on the host cluster. Objects on a target are out of reach without a Target.
func (d *Deployer) Holdings(ctx context.Context, req *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	if req.HostCluster == nil {
		return &sdk.HoldingsResponse{}, nil
	}
	at, err := d.runner.OnHost(req.HostCluster, "")
	if err != nil {
		return nil, err
	}
	found, err := at.Remaining(ctx, pod.OfInstallation(req.HostCluster.Installation))
	if err != nil {
		return nil, err
	}
	var holdings []sdk.Holding
	for _, o := range found {
		annotations, labels := o.Meta.Annotations, o.Meta.Labels
		h := sdk.Holding{
			Namespace: annotations[pod.NamespaceAnnotation], Name: annotations[pod.NameAnnotation],
			UID: types.UID(labels[pod.ItemLabel]),
		}
		// Some parts outlast a run.
		if !slices.Contains([]string{pod.PartResult, pod.PartState, pod.PartKept}, labels[pod.PartLabel]) {
			h.JobID = annotations[pod.JobAnnotation]
		}
		if (h.JobID != "" || !d.runner.Settings.GarbageCollection.Disable) && !slices.Contains(holdings, h) {
			holdings = append(holdings, h)
		}
	}
	return &sdk.HoldingsResponse{Holdings: holdings}, nil
}

// Collect removes the objects of deleted items and of ended jobs.
func (d *Deployer) Collect(ctx context.Context, req *sdk.CollectRequest) error {
	at, err := d.runner.OnHost(req.HostCluster, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, selector := range obsolete(req.Holdings) {
		left, err := run.RemoveAt(ctx, at, selector)
		if err == nil && len(left) > 0 {
			err = errStopping
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// obsolete returns selectors of the objects of holdings.
func obsolete(holdings []sdk.Holding) []pod.Selector {
	var all []pod.Selector
	for _, h := range holdings {
		if h.JobID == "" {
			all = append(all, pod.OfItem(h.UID))
			continue
		}
		for _, operation := range pod.Operations() {
			i := pod.Identity{Namespace: h.Namespace, Name: h.Name, UID: h.UID, JobID: h.JobID, Operation: operation}
			all = append(all, pod.Temporary(i.UID, i.RunName()))
		}
	}
	return all
}
