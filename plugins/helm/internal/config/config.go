// Package config reads the provider configuration of a deploy item, and reports all mistakes in it. The result is in
// the terms of the packages for its parts.
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
	// IgnoreDifferences are fields of objects left to other clients.
	IgnoreDifferences ignore.Rules
	// UpdateStrategy, DeletionDuringUpdate are for objects without a release.
	UpdateStrategy       managedresource.UpdateStrategy
	DeletionDuringUpdate prune.Groups
	Checks               readiness.Checks
	// Exports are values from objects, ValueExports those from the chart's values. Each key is there once.
	Exports      []export.Value
	ValueExports []ValueExport
	// Ignored are the fields without an effect, as texts for users.
	Ignored []string
	// Unknown are the skipped unknown fields, as texts for users.
	Unknown []string
}

// Read reads and validates the provider configuration of a deploy item. With strict an unknown field is an error. The
// error is an *sdk.Error with all mistakes and the code ERR_CONFIGURATION_PROBLEM; it repeats none of the values.
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

// Validate returns the mistakes in a provider configuration, for sdk.Validator.
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

// ScheduleOf returns the schedule of an item, without a look at the rest of its provider configuration; nil for none.
// An invalid schedule is an error and counts as none: the job has already failed with it.
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

// decode returns the readable part of the provider configuration, and the skipped unknown fields.
func decode(req *sdk.Request, strict bool) (document *v1alpha1.ProviderConfiguration, unknown []string, misread job.Misread, err error) {
	apiVersion, kind := req.ConfigGroupVersionKind()
	if apiVersion == "" && kind == "" {
		// Its error is about a missing or unreadable configuration.
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

// form is one of the written forms of a provider configuration.
type form interface {
	document() *v1alpha1.ProviderConfiguration
}

type plain struct {
	v1alpha1.ProviderConfiguration `json:",inline"`
}

// withList reads a configuration with exports as a list, not as a map with a list in it. As a struct, not a decoder
// of its own, it lets the strict decoder report unknown fields with their paths.
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
