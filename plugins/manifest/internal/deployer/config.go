package deployer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

const (
	// reasonInvalid is given to the error about a provider configuration that does not make sense. It is Landscaper's.
	reasonInvalid = "ValidateProviderConfiguration"
	// reasonUnsupported is given to the error about something that this version cannot do.
	reasonUnsupported = "NotSupported"
)

// config is what a provider configuration asks for, in the terms of the packages that do it.
type config struct {
	manifests      []object.Manifest
	checkReadiness bool
	exports        []export.Value
}

// readConfig reads and validates the provider configuration in any of its versions. Its objects are those of the request's children, if
// there are any.
func readConfig(req *sdk.Request) (*config, error) {
	document, err := decodeConfig(req)
	if err != nil {
		return nil, err
	}
	c, problems := validate(document, formOf(req))
	if len(problems) > 0 {
		return nil, sdk.ConfigurationError(reasonInvalid, "spec.config: %s", describe(problems))
	}
	if req.Children == nil {
		return c, nil
	}
	if c.manifests, problems = replace(c.manifests, req.Children); len(problems) > 0 {
		return nil, sdk.ConfigurationError(reasonChildren, "changed objects do not fit spec.config: %s", describe(problems))
	}
	return c, nil
}

func describe(problems field.ErrorList) string {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.Error())
	}
	return strings.Join(texts, "; ")
}

// decodeConfig returns the provider configuration in its newest version.
func decodeConfig(req *sdk.Request) (*v1alpha2.ProviderConfiguration, error) {
	apiVersion, kind := req.ConfigGroupVersionKind()
	list := exportsAreList(req.DeployItem.Spec.Config)
	switch {
	case kind == v1alpha2.ProviderConfigurationKind && apiVersion == v1alpha2.GroupVersion.String():
		if list {
			return decodeWithList(req, &v1alpha2WithList{})
		}
		document := &v1alpha2.ProviderConfiguration{}
		return document, req.DecodeConfig(document)
	case kind == v1alpha2.ProviderConfigurationKind && apiVersion == v1alpha1.GroupVersion.String():
		if list {
			return decodeWithList(req, &v1alpha1WithList{})
		}
		document := &v1alpha1.ProviderConfiguration{}
		err := req.DecodeConfig(document)
		return document.ToV1alpha2(), err
	case apiVersion == "" && kind == "":
		// Says that there is no configuration, or what makes it unreadable.
		if err := req.DecodeConfig(&v1alpha2.ProviderConfiguration{}); err != nil {
			return nil, err
		}
	}
	return nil, sdk.ConfigurationError(sdk.ReasonConfigInvalid,
		"spec.config: expected kind %s of apiVersion %s or %s, but found kind %q of apiVersion %q",
		v1alpha2.ProviderConfigurationKind, v1alpha2.GroupVersion, v1alpha1.GroupVersion, kind, apiVersion)
}

// v1alpha2WithList and v1alpha1WithList read a configuration whose exports are a list and not a map with a list in it. Being
// structs, not a decoder of their own, they leave it to the strict decoder to report unknown fields with their paths.
type v1alpha2WithList struct {
	v1alpha2.ProviderConfiguration `json:",inline"`
	Exports                        []managedresource.Export `json:"exports,omitempty"`
}

type v1alpha1WithList struct {
	v1alpha1.ProviderConfiguration `json:",inline"`
	Exports                        []managedresource.Export `json:"exports,omitempty"`
}

func (l *v1alpha2WithList) document() *v1alpha2.ProviderConfiguration {
	l.ProviderConfiguration.Exports = &managedresource.Exports{Exports: l.Exports}
	return &l.ProviderConfiguration
}

func (l *v1alpha1WithList) document() *v1alpha2.ProviderConfiguration {
	l.ProviderConfiguration.Exports = &managedresource.Exports{Exports: l.Exports}
	return l.ToV1alpha2()
}

func decodeWithList(req *sdk.Request, into interface {
	document() *v1alpha2.ProviderConfiguration
}) (*v1alpha2.ProviderConfiguration, error) {
	err := req.DecodeConfig(into)
	return into.document(), err
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

// form says where a document, which is validated in its newest version, has its fields as it was written.
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

func (f form) exports() *field.Path {
	if f.listedExports {
		return field.NewPath("exports")
	}
	return field.NewPath("exports", "exports")
}

// Validate implements sdk.Validator. It needs no target, so it cannot tell whether a kind is known there.
func (d *Deployer) Validate(_ context.Context, req *sdk.ValidateRequest) (*sdk.ValidateResponse, error) {
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: req.Config}
	request := &sdk.Request{DeployItem: item}
	document, err := decodeConfig(request)
	if err != nil {
		var known *sdk.Error
		if errors.As(err, &known) {
			return &sdk.ValidateResponse{Problems: []sdk.Problem{{Field: "spec.config", Message: err.Error()}}}, nil
		}
		return nil, err
	}
	res := &sdk.ValidateResponse{}
	_, problems := validate(document, formOf(request))
	for _, p := range problems {
		res.Problems = append(res.Problems, sdk.Problem{Field: p.Field, Message: p.ErrorBody()})
	}
	return res, nil
}
