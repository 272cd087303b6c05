package deployer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// config is a provider configuration in the terms of the packages for its parts.
type config struct {
	manifests            []desired.Manifest
	checks               readiness.Checks
	exports              []export.Value
	deletionDuringUpdate prune.Groups
	// unknown are the ignored fields, as texts for users.
	unknown []string
}

// readConfig reads and validates the provider configuration in any of its versions. If the request has children, its
// objects are theirs.
func (d *Deployer) readConfig(req *sdk.Request) (*config, error) {
	document, unknown, misread, err := d.decodeConfig(req)
	if err != nil {
		return nil, err
	}
	c, problems := validate(document, formOf(req))
	if err := misread.Error(problems); err != nil {
		return nil, err
	}
	c.unknown = unknown
	if req.Children == nil {
		return c, nil
	}
	if c.manifests, problems = objectjob.Replace(c.manifests, req.Children); len(problems) > 0 {
		return nil, sdk.ConfigurationError(objectjob.ReasonChildren,
			"changed objects do not fit spec.config: %s", job.Describe(problems))
	}
	return c, nil
}

// decodeConfig returns the readable part of the provider configuration in its newest version, and the ignored unknown
// fields.
func (d *Deployer) decodeConfig(req *sdk.Request) (
	document *v1alpha2.ProviderConfiguration, unknown []string, misread job.Misread, err error,
) {
	apiVersion, kind := req.ConfigGroupVersionKind()
	if apiVersion == "" && kind == "" {
		// Get the error about a missing or an unreadable configuration.
		if err := req.DecodeConfig(&v1alpha2.ProviderConfiguration{}); err != nil {
			return nil, nil, misread, err
		}
	}
	into := versionOf(apiVersion, kind, exportsAreList(req.DeployItem.Spec.Config))
	if into == nil {
		return nil, nil, misread, sdk.ConfigurationError(sdk.ReasonConfigInvalid,
			"spec.config: expected kind %s of apiVersion %s or %s, but found kind %q of apiVersion %q",
			v1alpha2.ProviderConfigurationKind, v1alpha2.GroupVersion, v1alpha1.GroupVersion, kind, apiVersion)
	}
	unknown, misread, err = job.Decode(req, into, d.settings.Strict)
	return into.document(), unknown, misread, err
}

// version is a provider configuration in one of its forms.
type version interface {
	// document returns it in its newest version.
	document() *v1alpha2.ProviderConfiguration
}

// versionOf returns the form for decoding a provider configuration; nil if there is none.
func versionOf(apiVersion, kind string, exportsAreList bool) version {
	switch {
	case kind != v1alpha2.ProviderConfigurationKind:
		return nil
	case apiVersion == v1alpha2.GroupVersion.String() && exportsAreList:
		return &v1alpha2WithList{}
	case apiVersion == v1alpha2.GroupVersion.String():
		return &v1alpha2Plain{}
	case apiVersion == v1alpha1.GroupVersion.String() && exportsAreList:
		return &v1alpha1WithList{}
	case apiVersion == v1alpha1.GroupVersion.String():
		return &v1alpha1Plain{}
	default:
		return nil
	}
}

type v1alpha2Plain struct {
	v1alpha2.ProviderConfiguration `json:",inline"`
}

type v1alpha1Plain struct {
	v1alpha1.ProviderConfiguration `json:",inline"`
}

// v1alpha2WithList and v1alpha1WithList read a configuration with exports as a list instead of a map with a list in
// it. They are structs without own decoders, so that the strict decoder reports unknown fields with their paths.
type v1alpha2WithList struct {
	v1alpha2.ProviderConfiguration `json:",inline"`
	Exports                        []managedresource.Export `json:"exports,omitempty"`
}

type v1alpha1WithList struct {
	v1alpha1.ProviderConfiguration `json:",inline"`
	Exports                        []managedresource.Export `json:"exports,omitempty"`
}

func (v *v1alpha2Plain) document() *v1alpha2.ProviderConfiguration { return &v.ProviderConfiguration }

func (v *v1alpha1Plain) document() *v1alpha2.ProviderConfiguration { return v.ToV1alpha2() }

func (v *v1alpha2WithList) document() *v1alpha2.ProviderConfiguration {
	v.ProviderConfiguration.Exports = &managedresource.Exports{Exports: v.Exports}
	return &v.ProviderConfiguration
}

func (v *v1alpha1WithList) document() *v1alpha2.ProviderConfiguration {
	v.ProviderConfiguration.Exports = &managedresource.Exports{Exports: v.Exports}
	return v.ToV1alpha2()
}

func exportsAreList(config *runtime.RawExtension) bool {
	var peek struct {
		Exports json.RawMessage `json:"exports"`
	}
	if config == nil || json.Unmarshal(config.Raw, &peek) != nil {
		return false
	}
	return bytes.HasPrefix(bytes.TrimSpace(peek.Exports), []byte("["))
}

// form describes the places of fields in a document as it was written; the validation has it in its newest version.
type form struct {
	// bareManifests: the list of manifests holds the objects themselves, as in v1alpha1.
	bareManifests bool
	// listedExports: the field exports is a list itself.
	listedExports bool
}

func formOf(req *sdk.Request) form {
	apiVersion, _ := req.ConfigGroupVersionKind()
	return form{
		bareManifests: apiVersion == v1alpha1.GroupVersion.String(),
		listedExports: exportsAreList(req.DeployItem.Spec.Config),
	}
}

func (f form) manifest(entry *field.Path) *field.Path {
	if f.bareManifests {
		return entry
	}
	return entry.Child("manifest")
}

// settings returns the path of the settings beside an object; nil if the form has none.
func (f form) settings(entry *field.Path) *field.Path {
	if f.bareManifests {
		return nil
	}
	return entry
}

func (f form) exports() *field.Path {
	if f.listedExports {
		return field.NewPath("exports")
	}
	return field.NewPath("exports", "exports")
}

// Validate implements sdk.Validator. It needs no target, and so does not check whether the target knows a kind.
func (d *Deployer) Validate(_ context.Context, req *sdk.ValidateRequest) (*sdk.ValidateResponse, error) {
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: req.Config}
	request := &sdk.Request{DeployItem: item}
	document, _, misread, err := d.decodeConfig(request)
	if err != nil {
		var known *sdk.Error
		if errors.As(err, &known) {
			return &sdk.ValidateResponse{Problems: []sdk.Problem{{Field: "spec.config", Message: err.Error()}}}, nil
		}
		return nil, err
	}
	_, problems := validate(document, formOf(request))
	return &sdk.ValidateResponse{Problems: misread.With(problems)}, nil
}
