package rollout

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Status is the part of a provider status that is about the objects of a deploy item.
type Status struct {
	// ManagedResources are the objects that the deployer has created or is about to create, until they are gone; nil if
	// there are none.
	ManagedResources []managedresource.ManagedResourceStatus
	// Cluster is the one that the deploy item's Target has led to, see target.Client.Cluster. It is saved as long as
	// something is managed.
	Cluster types.UID
	// Drift is what the last job that found something changed has repaired; nil if there is nothing to tell.
	Drift *managedresource.Drift
}

// Account is what a deployer keeps about a deploy item, together with what is saved of it.
type Account struct {
	// Inventory has the objects of the item.
	Inventory *Inventory

	cluster  types.UID
	drift    *managedresource.Drift
	req      *sdk.Request
	document func(Status) any
	// saved is the provider status that is saved; nil if it has to be replaced in any case.
	saved any
}

// NewAccount returns the account of what was saved last. document makes a provider status, with apiVersion and kind, of
// what is to be saved; it may add to it what else the deployer keeps, and is called whenever that is to be known.
// outdated says that what is saved is in another form than the one that document makes, so that it is replaced at the
// first opportunity.
func NewAccount(req *sdk.Request, stored Status, outdated bool, document func(Status) any) *Account {
	a := &Account{
		Inventory: NewInventory(stored.ManagedResources), cluster: stored.Cluster, drift: stored.Drift,
		req: req, document: document,
	}
	if !outdated {
		a.saved = a.current()
	}
	return a
}

// current is the provider status as it should be saved.
func (a *Account) current() any {
	status := Status{ManagedResources: a.Inventory.Entries(), Cluster: a.cluster, Drift: a.drift}
	if len(status.ManagedResources) == 0 {
		status.ManagedResources = nil
	}
	return a.document(status)
}

// Unsaved returns the provider status if it differs from what is saved; nil otherwise.
func (a *Account) Unsaved() any {
	current := a.current()
	if reflect.DeepEqual(current, a.saved) {
		return nil
	}
	return current
}

// Save saves the provider status if it differs from what is saved, and returns when that is done.
func (a *Account) Save(ctx context.Context) error {
	status := a.Unsaved()
	if status == nil {
		return nil
	}
	if err := a.req.SaveProviderStatus(ctx, status); err != nil {
		return err
	}
	a.saved = status
	return nil
}
