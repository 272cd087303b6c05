package deployer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// readStatus reads the saved provider status; an empty one for none.
func readStatus(req *sdk.Request) (*v1alpha1.ProviderStatus, error) {
	stored := &v1alpha1.ProviderStatus{}
	_, err := req.DecodeProviderStatus(stored, v1alpha1.ProviderStatusKind, v1alpha1.GroupVersion.String())
	return stored, err
}

// document returns the provider status to save. The job replaces the values behind its pointers and never changes
// them.
func (j *helmJob) document(s objectjob.ObjectsStatus) any {
	status := &v1alpha1.ProviderStatus{
		TypeMeta:         metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ProviderStatusKind},
		ManagedResources: s.ManagedResources,
		Drift:            s.Drift,
		Release:          j.release,
		Chart:            j.chart,
		SettledIn:        s.SettledIn,
	}
	if j.release != nil || len(s.ManagedResources) > 0 {
		status.Cluster, status.Installation = s.Cluster, s.Installation
	}
	return status
}
