// Package v1alpha1 has the types of the helm deployer: provider configuration and provider status of deploy items of
// its type. Names and meanings are those of Landscaper's API group helm.deployer.landscaper.gardener.cloud/v1alpha1;
// Pergola's own fields say so.
package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// GroupName is the API group of all types in this package.
	GroupName = "helm.deployer.landscaper.gardener.cloud"
	// Type is the type of the deploy items of this package.
	Type v1alpha1.DeployItemType = "landscaper.gardener.cloud/helm"
	// DeployItemLabel is Landscaper's label on each object deployed without a Helm release. Its value is the name of the
	// deploy item; of a name too long for a label the beginning, with a hash.
	DeployItemLabel = GroupName + "/deployitem"

	// ProviderConfigurationKind is the kind of ProviderConfiguration.
	ProviderConfigurationKind = "ProviderConfiguration"
	// ProviderStatusKind is the kind of ProviderStatus.
	ProviderStatusKind = "ProviderStatus"
)

// GroupVersion is the API group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// ProviderConfiguration names the chart of a deploy item, and sets up its deployment.
type ProviderConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Chart says where the chart comes from.
	Chart Chart `json:"chart"`
	// Name of the release.
	Name string `json:"name"`
	// Namespace of the release, and of its objects without a namespace of their own.
	Namespace string `json:"namespace"`
	// CreateNamespace has the namespace created if it does not exist. It stays when the deploy item is deleted.
	CreateNamespace bool `json:"createNamespace,omitempty"`
	// Values override the chart's own values: a JSON object.
	Values json.RawMessage `json:"values,omitempty"`

	// HelmDeployment decides about a release of Helm. Defaults to true. With false the objects of the chart are applied
	// like those of the manifest deployer, and Helm only renders them.
	HelmDeployment *bool `json:"helmDeployment,omitempty"`
	// HelmDeploymentConfig sets up the operations on the release.
	HelmDeploymentConfig *HelmDeploymentConfiguration `json:"helmDeploymentConfig,omitempty"`

	// UpdateStrategy is the way of bringing existing objects to their manifests. Without a release only. Defaults to
	// update.
	UpdateStrategy managedresource.UpdateStrategy `json:"updateStrategy,omitempty"`
	// IgnoreDifferences are fields left to other clients once an object exists. Pergola's own.
	IgnoreDifferences []managedresource.IgnoreDifferences `json:"ignoreDifferences,omitempty"`
	// ReadinessChecks say when the objects count as ready.
	ReadinessChecks managedresource.ReadinessCheckConfiguration `json:"readinessChecks,omitempty"`
	// ExportsFromManifests are values to read from objects. Deprecated: use Exports.
	ExportsFromManifests []managedresource.Export `json:"exportsFromManifests,omitempty"`
	// Exports are values to read once the objects are ready: from an object or, without FromResource, from the values of
	// the rendered chart; JSONPath then begins with .Values.
	Exports *managedresource.Exports `json:"exports,omitempty"`
	// ContinuousReconcile says when the item is reconciled although nothing has changed.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`
	// DeletionGroups are the steps of the item's deletion. Without a release only.
	DeletionGroups []managedresource.DeletionGroup `json:"deletionGroups,omitempty"`
	// DeletionGroupsDuringUpdate are the steps of deleting the objects no longer in the chart. Without a release only.
	DeletionGroupsDuringUpdate []managedresource.DeletionGroup `json:"deletionGroupsDuringUpdate,omitempty"`
}

// Chart says where a chart comes from. Exactly one field is set.
type Chart struct {
	// Ref is a chart in an OCI registry, such as "registry.example.org/charts/shop:1.2.3" or "…@sha256:…", with or
	// without "oci://".
	Ref string `json:"ref,omitempty"`
	// HelmChartRepo is a chart in a chart repository.
	HelmChartRepo *HelmChartRepo `json:"helmChartRepo,omitempty"`
	// Archive is a packed chart.
	Archive *Archive `json:"archive,omitempty"`
	// ResourceRef is the key of a chart as a resource of a component version, in base64, as getResourceKey of Landscaper
	// makes it. The Context says where components are.
	ResourceRef string `json:"resourceRef,omitempty"`
	// FromResource is the predecessor of ResourceRef in Landscaper. It needs a resolver, and this deployer brings none;
	// see package plugins/helm/plugin.
	FromResource json.RawMessage `json:"fromResource,omitempty"`
}

// HelmChartRepo names a chart in a chart repository.
type HelmChartRepo struct {
	// HelmChartRepoURL is the address of the repository; index.yaml is below it.
	HelmChartRepoURL string `json:"helmChartRepoUrl,omitempty"`
	// HelmChartName is the name of the chart.
	HelmChartName string `json:"helmChartName,omitempty"`
	// HelmChartVersion is the version of the chart, or a range of versions, for the newest of them. Defaults to the newest
	// version, prereleases left out.
	HelmChartVersion string `json:"helmChartVersion,omitempty"`
}

// Archive is a packed chart. Exactly one field is set.
type Archive struct {
	// Raw is the archive itself, a gzipped tar, in base64.
	Raw string `json:"raw,omitempty"`
	// Remote is where it can be downloaded.
	Remote *RemoteArchive `json:"remote,omitempty"`
}

// RemoteArchive is an archive to download.
type RemoteArchive struct {
	// URL of the archive, with http or https.
	URL string `json:"url,omitempty"`
}

// HelmDeploymentConfiguration sets up the operations on a release.
type HelmDeploymentConfiguration struct {
	// Install is for the first revision.
	Install *HelmInstallConfiguration `json:"install,omitempty"`
	// Upgrade is for the revisions after it.
	Upgrade *HelmInstallConfiguration `json:"upgrade,omitempty"`
	// Uninstall is for the end.
	Uninstall *HelmUninstallConfiguration `json:"uninstall,omitempty"`
	// TakeOwnership takes over a release left behind by another deploy item, now gone; without it such a release is an
	// error. Pergola's own.
	TakeOwnership bool `json:"takeOwnership,omitempty"`
}

// HelmInstallConfiguration has options of Helm's commands install and upgrade.
type HelmInstallConfiguration struct {
	// Atomic has a failed installation removed, and a failed upgrade rolled back. It includes Wait.
	Atomic bool `json:"atomic,omitempty"`
	// Force has objects replaced where a change of them is impossible.
	Force bool `json:"force,omitempty"`
	// SkipSchemaValidation has the values not checked with the chart's schema.
	SkipSchemaValidation bool `json:"skipSchemaValidation,omitempty"`
	// TakeOwnership takes over existing objects from outside the release.
	TakeOwnership bool `json:"takeOwnership,omitempty"`
	// Wait has Helm itself wait until the objects are ready, before it runs the hooks after them. Without it the deployer
	// waits, at less cost.
	Wait bool `json:"wait,omitempty"`
	// Timeout bounds each wait of Helm, those for its hooks included. The timeout of the deploy item bounds it in any
	// case, and is the default.
	Timeout *v1alpha1.Duration `json:"timeout,omitempty"`
}

// HelmUninstallConfiguration has options of Helm's command uninstall.
type HelmUninstallConfiguration struct {
	// DisableHooks has the chart's hooks not run. It counts also when it is set while the deploy item is being deleted.
	// Pergola's own.
	DisableHooks bool `json:"disableHooks,omitempty"`
	// Wait has Helm itself wait until the objects are gone, before it runs the hooks after them. Without it the deployer
	// waits.
	Wait bool `json:"wait,omitempty"`
	// Timeout is as for HelmInstallConfiguration.
	Timeout *v1alpha1.Duration `json:"timeout,omitempty"`
}

// ProviderStatus is the deployer's record of a deploy item.
type ProviderStatus struct {
	metav1.TypeMeta `json:",inline"`

	// ManagedResources are the objects of the deployer, from just before their creation until they are gone. Those of
	// Helm's hooks are not among them.
	ManagedResources []managedresource.ManagedResourceStatus `json:"managedResources,omitempty"`
	// Cluster is the cluster of the release and the objects: the UID of its namespace kube-system. Empty as long as it is
	// unknown, or if nothing is managed. Pergola's own.
	Cluster types.UID `json:"cluster,omitempty"`
	// Installation is the control plane of the deploy item: the UID of its namespace kube-system. Empty as long as it is
	// unknown, or if nothing is managed. Pergola's own.
	Installation string `json:"installation,omitempty"`
	// Drift is the last drift found on the target and repaired by a job, until a job finds none. Pergola's own.
	Drift *managedresource.Drift `json:"drift,omitempty"`
	// Release is the release of the deployer, from just before its creation until it is gone; nil without one. Pergola's
	// own.
	Release *ReleaseStatus `json:"release,omitempty"`
	// Chart is the chart of the last deployment. Pergola's own.
	Chart *ChartStatus `json:"chart,omitempty"`
	// SettledIn is the job in progress that has applied the entries with a SettledMark. Empty after the end of a job.
	// Pergola's own.
	SettledIn string `json:"settledIn,omitempty"`
}

// ReleaseStatus names a release.
type ReleaseStatus struct {
	// Name of the release.
	Name string `json:"name"`
	// Namespace of the release.
	Namespace string `json:"namespace"`
	// Revision of the last deployment; zero as long as there is none.
	Revision int `json:"revision,omitempty"`
	// JobID is the last job to make the revision, or the job in progress if it has found the revision up to date. Later
	// calls of the job only wait for it.
	JobID string `json:"jobID,omitempty"`
	// Next is a planned revision of the same chart and values, made for an HTTP hook to see its objects first. Zero for
	// none.
	Next int `json:"next,omitempty"`
}

// ComponentResource names a resource of a component version.
type ComponentResource struct {
	// Component is the name of the component.
	Component string `json:"component"`
	// Version of the component.
	Version string `json:"version"`
	// Resource is its name, as the attribute name, and its distinguishing attributes.
	Resource map[string]string `json:"resource"`
}

// ChartStatus names a chart.
type ChartStatus struct {
	// Name of the chart.
	Name string `json:"name"`
	// Version of the chart.
	Version string `json:"version"`
	// AppVersion is the version of the chart's application, if the chart says it.
	AppVersion string `json:"appVersion,omitempty"`
	// Digest of the archive, such as "sha256:…".
	Digest string `json:"digest"`
	// Resource is the chart's resource of a component version; nil for a chart from elsewhere.
	Resource *ComponentResource `json:"resource,omitempty"`
	// AppliedIn is the job in progress once it has applied all objects of a chart without a release. Later calls of the
	// job only wait for them. Empty after the end of a job.
	AppliedIn string `json:"appliedIn,omitempty"`
	// Rendering is the Secret on the target with the objects still to be applied by a job in progress, without a release.
	// Nil if there is none.
	Rendering *managedresource.ObjectReference `json:"rendering,omitempty"`
}
