// Package config reads the provider configuration of a deploy item: what it asks for, in the terms of the packages that
// do it, or everything that is wrong with it.
package config

import (
	"bytes"
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// Config is what a provider configuration asks for.
type Config struct {
	// Source is where the chart comes from.
	Source chartsource.Source
	// Release names the release. Without one its namespace is still that of objects that name none, and templates get
	// both.
	Release         helm.Release
	CreateNamespace bool
	// Values override those of the chart: a JSON object in a canonical form, so that equal values are equal bytes; nil
	// for none.
	Values json.RawMessage
	// HelmDeployment says whether there is a release.
	HelmDeployment bool
	// Install, Upgrade and Uninstall are the options of the operations on the release. Wait is set with Atomic. A
	// Timeout of zero stands for that of the deploy item. Without a release SkipSchemaValidation of Install counts, and
	// nothing else.
	Install, Upgrade, Uninstall helm.Options
	// TakeOwnership says that the release may belong to another deploy item, and is taken over.
	TakeOwnership bool
	// IgnoreDifferences are fields of objects that belong to other clients.
	IgnoreDifferences ignore.Rules
	// UpdateStrategy, DeletionDuringUpdate are for objects without a release.
	UpdateStrategy       managedresource.UpdateStrategy
	DeletionDuringUpdate prune.Groups
	Checks               readiness.Checks
	// Exports are values that are read from objects, ValueExports those that are read from the chart's values. No key
	// is there twice.
	Exports      []export.Value
	ValueExports []ValueExport
	// Ignored are the fields that have no effect, as texts for people.
	Ignored []string
	// Unknown are the fields that were passed over, as texts for people.
	Unknown []string
}

// Read reads and validates the provider configuration of a deploy item. strict says whether an unknown field is an
// error. The error is an
// *sdk.Error with everything that is wrong and the code ERR_CONFIGURATION_PROBLEM; it repeats none of the values.
func Read(req *sdk.Request, strict bool) (*Config, error) {
	document, unknown, misread, err := decode(req, strict)
	if err != nil {
		return nil, err
	}
	c, problems := validate(document, req.DeployItem.Spec.Config)
	if err := misread.Error(problems); err != nil {
		return nil, err
	}
	c.Unknown = unknown
	return c, nil
}

// Validate returns what is wrong with a provider configuration, for sdk.Validator.
func Validate(config []byte, strict bool) ([]sdk.Problem, error) {
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: config}
	document, _, misread, err := decode(&sdk.Request{DeployItem: item}, strict)
	if err != nil {
		var known *sdk.Error
		if errors.As(err, &known) {
			return []sdk.Problem{{Field: "spec.config", Message: err.Error()}}, nil
		}
		return nil, err
	}
	_, problems := validate(document, item.Spec.Config)
	return misread.With(problems), nil
}

// ScheduleOf returns the schedule of an item, without a look at the rest of its provider configuration; nil if it has
// none. A schedule that is wrong is an error, which counts as none: the job has failed over it and said so.
func ScheduleOf(item *landscaper.DeployItem) (*managedresource.ContinuousReconcile, error) {
	if !isKnown((&sdk.Request{DeployItem: item}).ConfigGroupVersionKind()) {
		return nil, nil //nolint:nilnil // no schedule
	}
	schedule, err := continuousreconcile.ReadSpec(item)
	if err != nil || schedule == nil {
		return nil, err
	}
	_, err = continuousreconcile.Parse(schedule.Every, schedule.Cron)
	return schedule, err
}

func isKnown(apiVersion, kind string) bool {
	return apiVersion == v1alpha1.GroupVersion.String() && kind == v1alpha1.ProviderConfigurationKind
}

// decode returns what can be read of the provider configuration, and the unknown fields in it that were passed over.
func decode(req *sdk.Request, strict bool) (document *v1alpha1.ProviderConfiguration, unknown []string, misread job.Misread, err error) {
	apiVersion, kind := req.ConfigGroupVersionKind()
	if apiVersion == "" && kind == "" {
		// Says that there is no configuration, or what makes it unreadable.
		if err := req.DecodeConfig(&v1alpha1.ProviderConfiguration{}); err != nil {
			return nil, nil, misread, err
		}
	}
	if !isKnown(apiVersion, kind) {
		return nil, nil, misread, sdk.ConfigurationError(sdk.ReasonConfigInvalid,
			"spec.config: expected kind %s of apiVersion %s, but found kind %q of apiVersion %q",
			v1alpha1.ProviderConfigurationKind, v1alpha1.GroupVersion, kind, apiVersion)
	}
	var into form = &plain{}
	if exportsAreList(req.DeployItem.Spec.Config) {
		into = &withList{}
	}
	unknown, misread, err = job.Decode(req, into, strict)
	return into.document(), unknown, misread, err
}

// form is a provider configuration in one of the forms in which it can be written.
type form interface {
	document() *v1alpha1.ProviderConfiguration
}

type plain struct {
	v1alpha1.ProviderConfiguration `json:",inline"`
}

// withList reads a configuration whose exports are a list and not a map with a list in it. Being a struct, not a
// decoder of its own, it leaves it to the strict decoder to report unknown fields with their paths.
type withList struct {
	v1alpha1.ProviderConfiguration `json:",inline"`
	Exports                        []managedresource.Export `json:"exports,omitempty"`
}

func (p *plain) document() *v1alpha1.ProviderConfiguration { return &p.ProviderConfiguration }

func (w *withList) document() *v1alpha1.ProviderConfiguration {
	w.ProviderConfiguration.Exports = &managedresource.Exports{Exports: w.Exports}
	return &w.ProviderConfiguration
}

func exportsAreList(config *runtime.RawExtension) bool {
	var peek struct {
		Exports json.RawMessage `json:"exports"`
	}
	if config == nil || kjson.UnmarshalCaseSensitivePreserveInts(config.Raw, &peek) != nil {
		return false
	}
	return bytes.HasPrefix(bytes.TrimSpace(peek.Exports), []byte("["))
}
