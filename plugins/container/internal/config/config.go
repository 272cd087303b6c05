// Package config reads the provider configuration of the container deployer.
package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/container/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/internal/rollout"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Config is what a provider configuration asks for, with the defaults of the plugin's settings.
type Config struct {
	*v1alpha1.ProviderConfiguration

	// Files of the blueprint, by their paths; nil without one, or with a reference to one.
	Files map[string][]byte
	// Resources of main.
	Resources corev1.ResourceRequirements
	// Unknown are the fields that were passed over, as texts for people.
	Unknown []string
}

// Read reads and validates the provider configuration. resolves says whether there is a resolver for references. The error names everything
// that is wrong with it.
func Read(req *sdk.Request, s *settings.Settings, resolves bool) (*Config, error) {
	document, unknown, misread, err := decode(req, s.Strict)
	if err != nil {
		return nil, err
	}
	c, problems := validate(document, s, resolves)
	if err := misread.Error(problems); err != nil {
		return nil, err
	}
	c.Unknown = unknown
	return c, nil
}

// Validate returns everything that is wrong with a provider configuration.
func Validate(raw []byte, s *settings.Settings, resolves bool) ([]sdk.Problem, error) {
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: raw}
	document, _, misread, err := decode(&sdk.Request{DeployItem: item}, s.Strict)
	if err != nil {
		var known *sdk.Error
		if errors.As(err, &known) {
			return []sdk.Problem{{Field: "spec.config", Message: err.Error()}}, nil
		}
		return nil, err
	}
	_, problems := validate(document, s, resolves)
	return misread.With(problems), nil
}

func decode(req *sdk.Request, strict bool) (document *v1alpha1.ProviderConfiguration, unknown []string, misread rollout.Misread, err error) {
	document = &v1alpha1.ProviderConfiguration{}
	apiVersion, kind := req.ConfigGroupVersionKind()
	if (apiVersion != "" || kind != "") && (apiVersion != v1alpha1.GroupVersion.String() || kind != v1alpha1.ProviderConfigurationKind) {
		return nil, nil, misread, sdk.ConfigurationError(sdk.ReasonConfigInvalid, "spec.config: expected kind %s of apiVersion %s, but found kind %q of apiVersion %q",
			v1alpha1.ProviderConfigurationKind, v1alpha1.GroupVersion, kind, apiVersion)
	}
	if wrong := checkQuantities(req.DeployItem); len(wrong) > 0 {
		return nil, nil, misread, rollout.Misread{Wrong: wrong}.Error(nil)
	}
	unknown, misread, err = rollout.Decode(req, document, strict)
	return document, unknown, misread, err
}

func validate(document *v1alpha1.ProviderConfiguration, s *settings.Settings, resolves bool) (*Config, field.ErrorList) {
	c := &Config{ProviderConfiguration: document, Resources: s.Resources}
	var problems field.ErrorList
	if document.APIVersion == "" {
		problems = append(problems, field.Required(field.NewPath("apiVersion"), "expected "+v1alpha1.GroupVersion.String()))
	}
	if document.Kind == "" {
		problems = append(problems, field.Required(field.NewPath("kind"), "expected "+v1alpha1.ProviderConfigurationKind))
	}
	if document.Image == "" {
		document.Image = s.DefaultImage
	}
	if document.Image == "" {
		problems = append(problems, field.Required(field.NewPath("image"), "say which image to run"))
	}
	files, p := validateBlueprint(document, resolves)
	c.Files, problems = files, append(problems, p...)
	problems = append(problems, validateDescriptor(document.ComponentDescriptor, resolves)...)
	problems = append(problems, validateSecrets(document.RegistryPullSecrets)...)
	problems = append(problems, rollout.ValidateSchedule(document.ContinuousReconcile, field.NewPath("continuousReconcile"))...)
	problems = append(problems, validatePlace(document, s)...)
	if document.Resources != nil {
		c.Resources = *document.Resources
	}
	return c, problems
}

const needsResolver = "is a reference to a repository of components, which this deployer does not know; give it inline, or run a plugin with a resolver"

func validateBlueprint(document *v1alpha1.ProviderConfiguration, resolves bool) (map[string][]byte, field.ErrorList) {
	path := field.NewPath("blueprint")
	b := document.Blueprint
	switch {
	case b == nil:
		return nil, nil
	case b.Reference != nil && b.Inline != nil:
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, "has both ref and inline; remove one of them")}
	case b.Reference == nil && b.Inline == nil:
		return nil, field.ErrorList{field.Required(path, "expected ref or inline")}
	case b.Inline != nil:
		files, err := readFiles(b.Inline.Filesystem)
		if err != nil {
			return nil, field.ErrorList{field.Invalid(path.Child("inline", "filesystem"), field.OmitValueType{}, err.Error())}
		}
		return files, nil
	case !resolves:
		return nil, field.ErrorList{field.Invalid(path.Child("ref"), field.OmitValueType{}, needsResolver)}
	case b.Reference.ResourceName == "":
		return nil, field.ErrorList{field.Required(path.Child("ref", "resourceName"), "")}
	default:
		return nil, nil
	}
}

func validateDescriptor(d *v1alpha1.ComponentDescriptor, resolves bool) field.ErrorList {
	path := field.NewPath("componentDescriptor")
	switch {
	case d == nil:
		return nil
	case d.Reference != nil && given(d.Inline):
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "has both ref and inline; remove one of them")}
	case d.Reference == nil && !given(d.Inline):
		return field.ErrorList{field.Required(path, "expected ref or inline")}
	case d.Reference == nil:
		var object map[string]json.RawMessage
		if json.Unmarshal(d.Inline, &object) != nil {
			return field.ErrorList{field.Invalid(path.Child("inline"), field.OmitValueType{}, "expected an object")}
		}
		return nil
	case !resolves:
		return field.ErrorList{field.Invalid(path.Child("ref"), field.OmitValueType{}, needsResolver)}
	case d.Reference.ComponentName == "" || d.Reference.Version == "":
		return field.ErrorList{field.Required(path.Child("ref"), "expected componentName and version")}
	default:
		return nil
	}
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func validateSecrets(secrets []v1alpha1.SecretReference) field.ErrorList {
	var problems field.ErrorList
	for i, s := range secrets {
		path := field.NewPath("registryPullSecrets").Index(i)
		if s.Name == "" {
			problems = append(problems, field.Required(path.Child("name"), ""))
		}
		if s.Namespace == "" {
			problems = append(problems, field.Required(path.Child("namespace"), ""))
		}
	}
	return problems
}

// validatePlace is about where and as whom the Pod is run.
func validatePlace(document *v1alpha1.ProviderConfiguration, s *settings.Settings) field.ErrorList {
	var problems field.ErrorList
	if t := document.RunOnTarget; t != nil {
		path := field.NewPath("runOnTarget", "namespace")
		if wrong := validation.IsDNS1123Label(t.Namespace); len(wrong) > 0 {
			problems = append(problems, field.Invalid(path, t.Namespace, "expected the name of a namespace: "+strings.Join(wrong, "; ")))
		}
		if account := document.ServiceAccountName; account != "" && len(validation.IsDNS1123Subdomain(account)) > 0 {
			problems = append(problems, field.Invalid(field.NewPath("serviceAccountName"), account, "expected the name of a ServiceAccount"))
		}
		return problems
	}
	account, path := document.ServiceAccountName, field.NewPath("serviceAccountName")
	if account != "" && !slices.Contains(s.ServiceAccounts, account) {
		allowed := "the operator allows none"
		if len(s.ServiceAccounts) > 0 {
			allowed = fmt.Sprintf("the operator allows %s", strings.Join(s.ServiceAccounts, ", "))
		}
		problems = append(problems, field.Invalid(path, account, allowed+" (serviceAccounts in the configuration of the plugin)"))
	}
	return problems
}
