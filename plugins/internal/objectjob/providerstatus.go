package objectjob

import (
	"cmp"
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// ObjectsStatus is the part of a provider status about the objects of a deploy item.
type ObjectsStatus struct {
	// ManagedResources are the created and soon to be created objects, until they are gone; nil without any.
	ManagedResources []managedresource.ManagedResourceStatus
	// Cluster is the cluster of the deploy item's Target, see target.Client.Cluster. It is saved while there are managed
	// objects.
	Cluster types.UID
	// Installation is that of the deploy item. It is saved while there are managed objects.
	Installation string
	// Drift has the repairs of the last job with any; nil for none.
	Drift *managedresource.Drift
	// SettledIn is the job in progress with applied ManagedResources, each with a SettledMark; empty for none.
	SettledIn string
}

// ProviderStatus is the record of a deployer about a deploy item, with its saved form.
type ProviderStatus struct {
	// Inventory has the objects of the item.
	Inventory *Inventory

	cluster types.UID
	// installation changes only with the success of a job in another one: then its objects have the new mark.
	installation string

	drift    *managedresource.Drift
	settled  settled
	req      *sdk.Request
	document func(ObjectsStatus) any
	// saved is the saved provider status; nil if it must be replaced in any case.
	saved any
}

// NewProviderStatus returns the provider status as last saved. document makes the provider status to save, with
// apiVersion and kind; it may add further records of the deployer, and is called at every comparison with the saved
// one. outdated means another form than that of document: then the status is replaced at the first opportunity.
func NewProviderStatus(
	req *sdk.Request, stored ObjectsStatus, outdated bool, document func(ObjectsStatus) any,
) *ProviderStatus {
	s := &ProviderStatus{
		Inventory: NewInventory(stored.ManagedResources), cluster: stored.Cluster, drift: stored.Drift,
		installation: stored.Installation, req: req, document: document,
	}
	s.settled = readSettled(s.Inventory, stored.SettledIn)
	if !outdated {
		s.saved = s.current()
	}
	s.installation = cmp.Or(s.installation, req.Installation)
	if s.settled.jobID != req.JobID { // another job compares all objects once
		s.settled = settled{jobID: req.JobID}
	}
	return s
}

// Installation is that of the last mark on the objects of the deploy item; empty if unknown.
func (s *ProviderStatus) Installation() string { return s.installation }

// finish removes the records of a job in progress.
func (s *ProviderStatus) finish() {
	if !s.drifted() {
		s.drift = nil
	}
	s.settled = settled{}
	s.installation = cmp.Or(s.req.Installation, s.installation)
}

// current is the provider status as it should be saved.
func (s *ProviderStatus) current() any {
	status := ObjectsStatus{
		ManagedResources: s.Inventory.Entries(), Cluster: s.cluster, Installation: s.installation, Drift: s.drift,
	}
	status.SettledIn = s.settled.mark(status.ManagedResources)
	if len(status.ManagedResources) == 0 {
		status.ManagedResources = nil
	}
	return s.document(status)
}

// Unsaved returns the provider status if it differs from the saved one; nil otherwise.
func (s *ProviderStatus) Unsaved() any {
	current := s.current()
	if reflect.DeepEqual(current, s.saved) {
		return nil
	}
	return current
}

// Save saves the provider status if it differs from the saved one, and returns after that.
func (s *ProviderStatus) Save(ctx context.Context) error {
	status := s.Unsaved()
	if status == nil {
		return nil
	}
	if err := s.req.SaveProviderStatus(ctx, status); err != nil {
		return err
	}
	s.saved = status
	return nil
}
