package helmjob

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// Record is the part of a provider status about the chart and the release.
type Record struct {
	// Stored is the provider status at the beginning of the call; an empty one for none.
	Stored *v1alpha1.ProviderStatus
	// Release and Chart are to be saved. They are replaced and never changed: the job compares them with the saved ones.
	Release *v1alpha1.ReleaseStatus
	Chart   *v1alpha1.ChartStatus
}

// ReadRecord reads the saved provider status.
func ReadRecord(req *sdk.Request) (Record, error) {
	stored := &v1alpha1.ProviderStatus{}
	_, err := req.DecodeProviderStatus(stored, v1alpha1.ProviderStatusKind, v1alpha1.GroupVersion.String())
	return Record{Stored: stored, Release: stored.Release, Chart: stored.Chart}, err
}

// Deployed is the deployment recorded by a provider status.
type Deployed string

// The recorded deployments.
const (
	// Unrecorded: there is no provider status.
	Unrecorded Deployed = "Unrecorded"
	// ByLandscaper: Landscaper's deployer wrote the provider status. It does not record whether there is a release, and
	// records nothing at all of one without objects of the kinds it waits for.
	ByLandscaper Deployed = "ByLandscaper"
	// Release: there is, or may be, a release.
	Release Deployed = "Release"
	// Objects: there are objects without a release, or at least their rendering.
	Objects Deployed = "Objects"
	// Nothing: all is gone.
	Nothing Deployed = "Nothing"
)

// Deployed returns the deployment at the beginning of the call. Pergola always records a release or a chart.
func (r *Record) Deployed() Deployed {
	stored := r.Stored
	switch {
	case stored.Kind == "":
		return Unrecorded
	case stored.Release != nil:
		return Release
	case stored.Chart == nil:
		return ByLandscaper
	case len(stored.ManagedResources) > 0 || stored.Chart.Rendering != nil:
		return Objects
	default:
		return Nothing
	}
}

// ReleaseName returns the name of the recorded release; the zero Release for none.
func (r *Record) ReleaseName() helm.Release {
	if r.Release == nil {
		return helm.Release{}
	}
	return helm.Release{Namespace: r.Release.Namespace, Name: r.Release.Name}
}

// ForgetRelease records that there is no release any more, in a status unlike Landscaper's.
func (r *Record) ForgetRelease() {
	r.Release = nil
	if r.Chart == nil {
		r.Chart = &v1alpha1.ChartStatus{}
	}
}

// NoteChart records the deployed chart.
func (r *Record) NoteChart(chart helm.Metadata, archive *chartsource.Archive) {
	r.Chart = &v1alpha1.ChartStatus{
		Name: chart.Name, Version: chart.Version, AppVersion: chart.AppVersion, Digest: archive.Digest,
		Resource: resourceOf(archive),
	}
}

// NoteResource records the resource of an archive with the recorded chart: another version of the component may have
// the same chart.
func (r *Record) NoteResource(archive *chartsource.Archive) {
	if r.Chart != nil && r.Chart.Digest == archive.Digest {
		same := *r.Chart
		same.Resource = resourceOf(archive)
		r.Chart = &same
	}
}

// resourceOf returns the resource in a component version behind a chart; nil for none.
func resourceOf(archive *chartsource.Archive) *v1alpha1.ComponentResource {
	key := archive.Resource
	if key == nil {
		return nil
	}
	return &v1alpha1.ComponentResource{Component: key.Component, Version: key.Version, Resource: key.Resource}
}

// document returns the provider status to save.
func (r *Record) document(s objectjob.ObjectsStatus) any {
	status := &v1alpha1.ProviderStatus{
		TypeMeta:         metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.ProviderStatusKind},
		ManagedResources: s.ManagedResources,
		Drift:            s.Drift,
		Release:          r.Release,
		Chart:            r.Chart,
		SettledIn:        s.SettledIn,
	}
	if r.Release != nil || len(s.ManagedResources) > 0 {
		status.Cluster, status.Installation = s.Cluster, s.Installation
	}
	return status
}
