package deployer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// storedStatus reads both forms of a provider status. The apiVersion does not determine the form of an entry:
// Landscaper wrote the newer form under the older version too.
type storedStatus struct {
	metav1.TypeMeta  `json:",inline"`
	ManagedResources []struct {
		managedresource.ManagedResourceStatus `json:",inline"`
		managedresource.TypedObjectReference  `json:",inline"`
	} `json:"managedResources"`
	Cluster types.UID              `json:"cluster"`
	Drift   *managedresource.Drift `json:"drift"`

	Installation string `json:"installation"`
	SettledIn    string `json:"settledIn"`
}

// readProviderStatus reads the last saved provider status.
func readProviderStatus(req *sdk.Request) (*objectjob.ProviderStatus, error) {
	var stored storedStatus
	found, err := req.DecodeProviderStatus(&stored, v1alpha2.ProviderStatusKind,
		v1alpha2.GroupVersion.String(), v1alpha1.GroupVersion.String())
	if err != nil {
		return nil, err
	}
	stale := found && stored.APIVersion != v1alpha2.GroupVersion.String()
	var entries []managedresource.ManagedResourceStatus
	for _, s := range stored.ManagedResources {
		entry := s.ManagedResourceStatus
		if entry.Resource.Kind == "" {
			stale = true
			entry.Policy = managedresource.PolicyManage
			entry.Resource = managedresource.ObjectReference{
				APIVersion: s.APIVersion,
				Kind:       s.Kind,
				Name:       s.Name,
				Namespace:  s.Namespace,
			}
		}
		entries = append(entries, entry)
	}
	objects := objectjob.ObjectsStatus{
		ManagedResources: entries, Cluster: stored.Cluster, Installation: stored.Installation, Drift: stored.Drift,
		SettledIn: stored.SettledIn,
	}
	return objectjob.NewProviderStatus(req, objects, stale, document), nil
}

// document returns the provider status to save.
func document(s objectjob.ObjectsStatus) any {
	status := &v1alpha2.ProviderStatus{
		TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.ProviderStatusKind,
		},
		ManagedResources: s.ManagedResources,
		Drift:            s.Drift,
		SettledIn:        s.SettledIn,
	}
	if len(s.ManagedResources) > 0 {
		status.Cluster, status.Installation = s.Cluster, s.Installation
	}
	return status
}
