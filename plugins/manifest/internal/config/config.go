// Package config reads the provider configurations of the manifest deployer, and reports all mistakes in them. The
// result is in the terms of the packages for its parts.
package config

import (
	_ "embed" // for Schema

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/objectconfig"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// Schema is the JSON schema of the provider configuration, in all its versions. `make generate` writes it.
//
//go:embed providerconfiguration.schema.json
var Schema []byte

// Config is a valid provider configuration.
type Config struct {
	objectconfig.Objects

	Manifests []desired.Manifest
	Exports   []export.Value
	// Unknown are the ignored fields, as texts for users.
	Unknown []string
}

type document = providerconfig.Document[v1alpha2.ProviderConfiguration]

var format = providerconfig.Format[v1alpha2.ProviderConfiguration, Config]{
	Kind: v1alpha2.ProviderConfigurationKind,
	Versions: []providerconfig.Version[v1alpha2.ProviderConfiguration]{
		providerconfig.Newest[v1alpha2.ProviderConfiguration](v1alpha2.GroupVersion.String()),
		providerconfig.Older(v1alpha1.GroupVersion.String(), (*v1alpha1.ProviderConfiguration).ToV1alpha2),
	},
	Rewrite:  objectconfig.RewriteExports,
	Validate: validate,
}

// Read reads and validates the provider configuration of a deploy item. With strict, an unknown field is an error.
func Read(req *sdk.Request, strict bool) (*Config, error) {
	return format.Read(req, strict)
}

// ScheduleOf returns the schedule of an item, for continuousreconcile.FromSpec; nil for none.
func ScheduleOf(item *landscaper.DeployItem) (*managedresource.ContinuousReconcile, error) {
	return format.ScheduleOf(item)
}

func validate(d *document) (*Config, field.ErrorList) {
	from, c := d.Config, &Config{Unknown: d.Unknown}
	shared, problems := objectconfig.Shared{
		UpdateStrategy: from.UpdateStrategy, IgnoreDifferences: from.IgnoreDifferences,
		ReadinessChecks: from.ReadinessChecks, ContinuousReconcile: from.ContinuousReconcile,
		DeletionGroups: from.DeletionGroups, DeletionGroupsDuringUpdate: from.DeletionGroupsDuringUpdate,
	}.Parse()
	c.Objects = shared
	manifests, p := validateManifests(from, formOf(d))
	problems = append(problems, p...)
	for n, m := range manifests {
		manifests[n].Ignored = c.IgnoreDifferences.For(m.Object.GetKind(), m.Object.GetName())
	}
	c.Manifests = manifests
	c.Exports, p = export.Parse(from.Exports, d.At(objectconfig.ExportsPath))
	return c, append(problems, p...)
}
