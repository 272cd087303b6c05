// Package config reads the provider configuration of a deploy item, and reports all mistakes in it. The result is in
// the terms of the packages for its parts.
package config

import (
	_ "embed" // for Schema
	"encoding/json"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/objectconfig"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// Schema is the JSON schema of the provider configuration. `make generate` writes it.
//
//go:embed providerconfiguration.schema.json
var Schema []byte

// Config is a valid provider configuration.
type Config struct {
	// Source of the chart.
	Source chartsource.Source
	// Release names the release. Even without a release, its namespace is the default of objects without one, and
	// templates get both.
	Release         helm.Release
	CreateNamespace bool
	// Values override those of the chart: a JSON object in a canonical form, so equal values are equal bytes; nil for
	// none.
	Values json.RawMessage
	// HelmDeployment asks for a release.
	HelmDeployment bool
	// Install, Upgrade and Uninstall are the options of the operations on the release. Wait is set with Atomic. A
	// Timeout of zero stands for that of the deploy item. Without a release only SkipSchemaValidation of Install counts.
	Install, Upgrade, Uninstall helm.Options
	// TakeOwnership permits the takeover of another deploy item's release.
	TakeOwnership bool
	// Objects has the shared fields. UpdateStrategy and DeletionDuringUpdate are for objects without a release.
	objectconfig.Objects

	// Exports are values from objects, ValueExports those from the chart's values. Each key is there once.
	Exports      []export.Value
	ValueExports []ValueExport
	// Ignored are the fields without an effect, as texts for users.
	Ignored []string
	// Unknown are the skipped unknown fields, as texts for users.
	Unknown []string
}

type document = providerconfig.Document[v1alpha1.ProviderConfiguration]

var format = providerconfig.Format[v1alpha1.ProviderConfiguration, Config]{
	Kind: v1alpha1.ProviderConfigurationKind,
	Versions: []providerconfig.Version[v1alpha1.ProviderConfiguration]{
		providerconfig.Newest[v1alpha1.ProviderConfiguration](v1alpha1.GroupVersion.String()),
	},
	Rewrite:  objectconfig.RewriteExports,
	Validate: validate,
}

// Read reads and validates the provider configuration of a deploy item. With strict an unknown field is an error. The
// error is an *sdk.Error with all mistakes and the code ERR_CONFIGURATION_PROBLEM; it repeats none of the values.
func Read(req *sdk.Request, strict bool) (*Config, error) {
	return format.Read(req, strict)
}

// ScheduleOf returns the schedule of an item, for continuousreconcile.FromSpec; nil for none.
func ScheduleOf(item *landscaper.DeployItem) (*managedresource.ContinuousReconcile, error) {
	return format.ScheduleOf(item)
}
