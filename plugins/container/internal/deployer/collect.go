package deployer

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/cluster"
	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
	"github.com/pergola-deploy/pergola/sdk"
)

// lasting are the parts that outlast a run.
var lasting = []string{run.PartResult, run.PartState, run.PartKept}

// Holdings tells for which deploy items there are objects on the host cluster. What was run on a target cannot be told without it.
func (d *Deployer) Holdings(ctx context.Context, req *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	if req.HostCluster == nil {
		return &sdk.HoldingsResponse{}, nil
	}
	namespace, err := d.namespace(req.HostCluster)
	if err != nil {
		return nil, err
	}
	at, err := d.onHost(req.HostCluster, namespace)
	if err != nil {
		return nil, err
	}
	found, err := at.Remaining(ctx, run.OfInstallation(req.HostCluster.Installation))
	if err != nil {
		return nil, err
	}
	var holdings []sdk.Holding
	for _, p := range found.Parts() {
		h := sdk.Holding{Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID)}
		if !slices.Contains(lasting, p.Part) {
			h.JobID = p.JobID
		}
		if h.JobID == "" && d.settings.NoGarbageCollection {
			continue
		}
		if !slices.Contains(holdings, h) {
			holdings = append(holdings, h)
		}
	}
	return &sdk.HoldingsResponse{Holdings: holdings}, nil
}

// Collect removes the objects of deploy items that are gone, and those of jobs that are over.
func (d *Deployer) Collect(ctx context.Context, req *sdk.CollectRequest) error {
	namespace, err := d.namespace(req.HostCluster)
	if err != nil {
		return err
	}
	at, err := d.onHost(req.HostCluster, namespace)
	if err != nil {
		return err
	}
	var errs []error
	for _, selector := range obsolete(req.Holdings) {
		errs = append(errs, remove(ctx, at, selector))
	}
	return errors.Join(errs...)
}

// obsolete selects what is kept for holdings.
func obsolete(holdings []sdk.Holding) []run.Selector {
	var all []run.Selector
	for _, h := range holdings {
		if h.JobID == "" {
			all = append(all, run.OfItem(h.UID))
			continue
		}
		for _, operation := range run.Operations() {
			i := run.Identity{Namespace: h.Namespace, Name: h.Name, UID: h.UID, JobID: h.JobID, Operation: operation}
			all = append(all, run.Temporary(i.UID, i.RunName()))
		}
	}
	return all
}

// errStopping says that there is something left to be removed when Pods have stopped. The host asks again.
var errStopping = errors.New("there are Pods that have not stopped yet")

// remove removes the objects that a selector selects.
func remove(ctx context.Context, at *cluster.Cluster, selector run.Selector) error {
	left, err := removeAt(ctx, at, selector)
	if err == nil && len(left) > 0 {
		return errStopping
	}
	return err
}
