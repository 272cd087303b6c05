package deployer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// readStatus reads what was saved last; nothing, if there is nothing.
func readStatus(req *sdk.Request) (*v1alpha1.ProviderStatus, error) {
	stored := &v1alpha1.ProviderStatus{}
	_, err := req.DecodeProviderStatus(stored, v1alpha1.ProviderStatusKind, v1alpha1.GroupVersion.String())
	return stored, err
}

// document returns what is saved. The job replaces what it points to and never changes it.
func (j *helmJob) document(s job.ObjectsStatus) any {
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
