package deployer

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/managed"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// account is the ledger of a deploy item together with what is saved of it.
type account struct {
	ledger *managed.Ledger

	req   *sdk.Request
	saved []managedresource.ManagedResourceStatus
	// outdated says that what is saved is in an older form, which is replaced at the first opportunity.
	outdated bool
}

// storedStatus reads both forms of a provider status. Which form an entry has does not follow from the apiVersion: Landscaper
// wrote the newer form under the older version too.
type storedStatus struct {
	metav1.TypeMeta  `json:",inline"`
	ManagedResources []struct {
		managedresource.ManagedResourceStatus `json:",inline"`
		managedresource.TypedObjectReference  `json:",inline"`
	} `json:"managedResources"`
}

// readAccount reads what was saved last. A provider status of another kind is an error: its objects would be forgotten.
func readAccount(req *sdk.Request) (*account, error) {
	var stored storedStatus
	found, err := req.DecodeProviderStatus(&stored)
	if err != nil {
		return nil, err
	}
	if group := stored.GroupVersionKind().Group; found && (group != v1alpha2.GroupName || stored.Kind != v1alpha2.ProviderStatusKind) {
		return nil, fmt.Errorf("status.providerStatus: expected %s of group %s, but found %s of %s",
			v1alpha2.ProviderStatusKind, v1alpha2.GroupName, stored.Kind, stored.APIVersion)
	}
	a := &account{req: req, outdated: found && stored.APIVersion != v1alpha2.GroupVersion.String()}
	for _, s := range stored.ManagedResources {
		entry := s.ManagedResourceStatus
		if entry.Resource.Kind == "" {
			a.outdated = true
			entry.Policy = managedresource.PolicyManage
			entry.Resource = managedresource.ObjectReference{
				APIVersion: s.APIVersion,
				Kind:       s.Kind,
				Name:       s.Name,
				Namespace:  s.Namespace,
			}
		}
		a.saved = append(a.saved, entry)
	}
	a.ledger = managed.NewLedger(a.saved)
	return a, nil
}

// unsaved returns the provider status if it differs from what is saved; nil otherwise.
func (a *account) unsaved() any {
	entries := a.ledger.Entries()
	same := (len(entries) == 0 && len(a.saved) == 0) || reflect.DeepEqual(entries, a.saved)
	if same && !a.outdated {
		return nil
	}
	return &v1alpha2.ProviderStatus{
		TypeMeta:         metav1.TypeMeta{APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.ProviderStatusKind},
		ManagedResources: entries,
	}
}

// save saves the provider status if it differs from what is saved, and returns when that is done.
func (a *account) save(ctx context.Context) error {
	status := a.unsaved()
	if status == nil {
		return nil
	}
	if err := a.req.SaveProviderStatus(ctx, status); err != nil {
		return err
	}
	a.saved, a.outdated = a.ledger.Entries(), false
	return nil
}

// response returns a response that saves the provider status; nil if there is nothing to save.
func (a *account) response() *sdk.Response {
	status := a.unsaved()
	if status == nil {
		return nil
	}
	return &sdk.Response{ProviderStatus: status}
}

// byPolicy sorts managed objects that are to go. Those with the policies keep and ignore stay on the target and are merely
// not managed any more. The entries may come from a real Landscaper; what this version cannot do with them is an error.
func byPolicy(entries []managedresource.ManagedResourceStatus) (
	deletable []managedresource.ManagedResourceStatus, kept []object.Key, err error,
) {
	for _, e := range entries {
		key := object.KeyOfReference(e.Resource)
		switch {
		case e.Policy == managedresource.PolicyKeep || e.Policy == managedresource.PolicyIgnore:
			kept = append(kept, key)
		case e.Policy == managedresource.PolicyFallback:
			return nil, nil, sdk.ConfigurationError(reasonUnsupported,
				"delete %s: this version of the deployer does not support the policy %s", key, e.Policy)
		case len(e.AnnotateBeforeDelete) > 0 || e.PatchBeforeDelete != nil:
			return nil, nil, sdk.ConfigurationError(reasonUnsupported,
				"delete %s: this version of the deployer does not support annotateBeforeDelete and patchBeforeDelete", key)
		default:
			deletable = append(deletable, e)
		}
	}
	return deletable, kept, nil
}

// checkDeletable refuses to delete an item with deletion groups: they may say that objects stay. The rest of the configuration
// does not count, since a mistake in it must not prevent a deletion.
func checkDeletable(req *sdk.Request) error {
	var config struct {
		DeletionGroups []json.RawMessage `json:"deletionGroups"`
	}
	readable := req.DeployItem.Spec.Config != nil && json.Unmarshal(req.DeployItem.Spec.Config.Raw, &config) == nil
	if !readable || len(config.DeletionGroups) == 0 {
		return nil
	}
	return sdk.ConfigurationError(reasonUnsupported,
		"spec.config: deletionGroups: this version of the deployer does not support deletion groups; "+
			"remove them to delete namespaced objects, then cluster-scoped ones, then CustomResourceDefinitions")
}
