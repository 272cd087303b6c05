package job

import (
	"cmp"
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// ObjectsStatus is the part of a provider status that is about the objects of a deploy item.
type ObjectsStatus struct {
	// ManagedResources are the objects that the deployer has created or is about to create, until they are gone; nil if
	// there are none.
	ManagedResources []managedresource.ManagedResourceStatus
	// Cluster is the one that the deploy item's Target has led to, see target.Client.Cluster. It is saved as long as
	// something is managed.
	Cluster types.UID
	// Installation is the one that the deploy item is in. It is saved as long as something is managed.
	Installation string
	// Drift is what the last job that found something changed has repaired; nil if there is nothing to tell.
	Drift *managedresource.Drift
	// SettledIn is the job in progress that has applied the ManagedResources with a SettledMark; empty for none.
	SettledIn string
}

// ProviderStatus is what a deployer keeps about a deploy item, together with what is saved of it.
type ProviderStatus struct {
	// Inventory has the objects of the item.
	Inventory *Inventory

	cluster types.UID
	// installation stays the one before until a job has succeeded in another one: then its objects have the new mark.
	installation string

	drift    *managedresource.Drift
	settled  settled
	req      *sdk.Request
	document func(ObjectsStatus) any
	// saved is the provider status that is saved; nil if it has to be replaced in any case.
	saved any
}

// NewProviderStatus returns the provider status of what was saved last. document makes one, with apiVersion and kind, of
// what is to be saved; it may add to it what else the deployer keeps, and is called whenever that is to be known.
// outdated says that what is saved is in another form than the one that document makes, so that it is replaced at the
// first opportunity.
func NewProviderStatus(req *sdk.Request, stored ObjectsStatus, outdated bool, document func(ObjectsStatus) any) *ProviderStatus {
	s := &ProviderStatus{
		Inventory: NewInventory(stored.ManagedResources), cluster: stored.Cluster, drift: stored.Drift,
		installation: stored.Installation, req: req, document: document,
	}
	s.settled = readSettled(s.Inventory, stored.SettledIn)
	if !outdated {
		s.saved = s.current()
	}
	s.installation = cmp.Or(s.installation, req.Installation)
	if s.settled.jobID != req.JobID { // the job compares all objects once
		s.settled = settled{jobID: req.JobID}
	}
	return s
}

// Installation is the one that the deploy item was in when its objects were marked last; empty if that is not known.
func (s *ProviderStatus) Installation() string { return s.installation }

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

// Unsaved returns the provider status if it differs from what is saved; nil otherwise.
func (s *ProviderStatus) Unsaved() any {
	current := s.current()
	if reflect.DeepEqual(current, s.saved) {
		return nil
	}
	return current
}

// Save saves the provider status if it differs from what is saved, and returns when that is done.
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
