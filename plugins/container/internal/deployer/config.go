package deployer

import (
	"cmp"
	_ "embed" // for ConfigSchema
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/container/internal/components"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ConfigSchema is the JSON schema of the provider configuration. `make generate` writes it.
//
//go:embed providerconfiguration.schema.json
var ConfigSchema []byte

// config is a provider configuration with the defaults of the plugin's settings.
type config struct {
	*v1alpha1.ProviderConfiguration

	// files of the blueprint, by their paths; nil for none or a reference.
	files map[string][]byte
	// resources of main.
	resources corev1.ResourceRequirements
	// unknown are the ignored fields, as texts for the user.
	unknown []string
}

// readConfig reads and validates the provider configuration. The error names all its problems.
func readConfig(req *sdk.Request, s *settings) (*config, error) {
	document, unknown, misread, err := decodeConfig(req, s.isStrict())
	if err != nil {
		return nil, err
	}
	c, problems := checkConfig(document, s)
	c.unknown = unknown
	return c, misread.Error(problems)
}

// validateConfig returns all problems of a provider configuration.
func validateConfig(raw []byte, s *settings) ([]sdk.Problem, error) {
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: raw}
	document, _, misread, err := decodeConfig(&sdk.Request{DeployItem: item}, s.isStrict())
	if _, ok := errors.AsType[*sdk.Error](err); ok {
		return []sdk.Problem{{Field: "spec.config", Message: err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	_, problems := checkConfig(document, s)
	return misread.With(problems), nil
}

func decodeConfig(
	req *sdk.Request, strict bool,
) (document *v1alpha1.ProviderConfiguration, unknown []string, misread job.Misread, err error) {
	document = &v1alpha1.ProviderConfiguration{}
	apiVersion, kind := req.ConfigGroupVersionKind()
	isOther := apiVersion != v1alpha1.GroupVersion.String() || kind != v1alpha1.ProviderConfigurationKind
	if isOther && (apiVersion != "" || kind != "") {
		return nil, nil, misread, sdk.ConfigurationError(sdk.ReasonConfigInvalid,
			"spec.config: expected kind %s of apiVersion %s, but found kind %q of apiVersion %q",
			v1alpha1.ProviderConfigurationKind, v1alpha1.GroupVersion, kind, apiVersion)
	}
	if wrong := checkQuantities(req.DeployItem); len(wrong) > 0 {
		return nil, nil, misread, job.Misread{Wrong: wrong}.Error(nil)
	}
	unknown, misread, err = job.Decode(req, document, strict)
	return document, unknown, misread, err
}

func checkConfig(document *v1alpha1.ProviderConfiguration, s *settings) (*config, field.ErrorList) {
	c := &config{ProviderConfiguration: document, resources: s.Resources}
	if document.Resources != nil {
		c.resources = *document.Resources
	}
	document.Image = cmp.Or(document.Image, s.DefaultImage)
	var problems field.ErrorList
	for _, f := range []struct{ name, value, expected string }{
		{"apiVersion", document.APIVersion, "expected " + v1alpha1.GroupVersion.String()},
		{"kind", document.Kind, "expected " + v1alpha1.ProviderConfigurationKind},
		{"image", document.Image, "say which image to run"},
	} {
		if f.value == "" {
			problems = append(problems, field.Required(field.NewPath(f.name), f.expected))
		}
	}
	if b := document.Blueprint; b != nil {
		if b.Inline != nil && b.Reference == nil {
			files, err := components.ReadFiles(b.Inline.Filesystem)
			if err != nil {
				problems = append(problems, invalid(field.NewPath("blueprint", "inline", "filesystem"), err.Error()))
			}
			c.files = files
		}
		problems = append(problems, checkSource("blueprint", b.Reference != nil, b.Inline != nil)...)
		if b.Reference != nil && b.Reference.ResourceName == "" {
			problems = append(problems, field.Required(field.NewPath("blueprint", "ref", "resourceName"), ""))
		}
	}
	if d := document.ComponentDescriptor; d != nil {
		inline := len(d.Inline) > 0 && string(d.Inline) != "null"
		var object map[string]json.RawMessage
		if inline && d.Reference == nil && json.Unmarshal(d.Inline, &object) != nil {
			problems = append(problems, invalid(field.NewPath("componentDescriptor", "inline"), "expected an object"))
		}
		problems = append(problems, checkSource("componentDescriptor", d.Reference != nil, inline)...)
		if d.Reference != nil && (d.Reference.ComponentName == "" || d.Reference.Version == "") {
			problems = append(problems, field.Required(field.NewPath("componentDescriptor", "ref"),
				"expected componentName and version"))
		}
	}
	for i, secret := range document.RegistryPullSecrets {
		path := field.NewPath("registryPullSecrets").Index(i)
		if secret.Name == "" {
			problems = append(problems, field.Required(path.Child("name"), ""))
		}
		if secret.Namespace == "" {
			problems = append(problems, field.Required(path.Child("namespace"), ""))
		}
	}
	schedule := field.NewPath("continuousReconcile")
	problems = append(problems, job.ValidateSchedule(document.ContinuousReconcile, schedule)...)
	return c, append(problems, checkPlace(document, s)...)
}

// checkSource validates a field with either a reference or a content.
func checkSource(name string, reference, inline bool) field.ErrorList {
	path := field.NewPath(name)
	switch {
	case reference && inline:
		return field.ErrorList{invalid(path, "has both ref and inline; remove one of them")}
	case !reference && !inline:
		return field.ErrorList{field.Required(path, "expected ref or inline")}
	default:
		return nil
	}
}

// invalid returns an error without a quote of the value.
func invalid(path *field.Path, detail string) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, detail)
}

// checkPlace validates the place and the ServiceAccount of the Pod.
func checkPlace(document *v1alpha1.ProviderConfiguration, s *settings) field.ErrorList {
	var problems field.ErrorList
	if t := document.RunOnTarget; t != nil {
		path := field.NewPath("runOnTarget", "namespace")
		if wrong := validation.IsDNS1123Label(t.Namespace); len(wrong) > 0 {
			problems = append(problems,
				field.Invalid(path, t.Namespace, "expected the name of a namespace: "+strings.Join(wrong, "; ")))
		}
		if account := document.ServiceAccountName; account != "" && len(validation.IsDNS1123Subdomain(account)) > 0 {
			problems = append(problems,
				field.Invalid(field.NewPath("serviceAccountName"), account, "expected the name of a ServiceAccount"))
		}
		return problems
	}
	account, path := document.ServiceAccountName, field.NewPath("serviceAccountName")
	if account != "" && !slices.Contains(s.ServiceAccounts, account) {
		allowed := "the operator allows none"
		if len(s.ServiceAccounts) > 0 {
			allowed = fmt.Sprintf("the operator allows %s", strings.Join(s.ServiceAccounts, ", "))
		}
		problems = append(problems,
			field.Invalid(path, account, allowed+" (serviceAccounts in the configuration of the plugin)"))
	}
	return problems
}

// quantities are the accepted amounts of a resource: no negative ones, and no exponents; some exponents keep the
// library busy for minutes.
var quantities = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,9})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)

// checkQuantities returns the problems of the amounts in the field resources of a provider configuration, before they
// are decoded. The decoder finds all other problems.
func checkQuantities(item *landscaper.DeployItem) []sdk.Problem {
	if item.Spec.Config == nil {
		return nil
	}
	// By exact names, as in the decoder.
	var document, resources map[string]json.RawMessage
	if json.Unmarshal(item.Spec.Config.Raw, &document) != nil ||
		json.Unmarshal(document["resources"], &resources) != nil {
		return nil
	}
	var problems []sdk.Problem
	for _, list := range slices.Sorted(maps.Keys(resources)) {
		var amounts map[string]json.RawMessage
		if json.Unmarshal(resources[list], &amounts) != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			text := strings.TrimSpace(string(amounts[name]))
			var quoted string
			if json.Unmarshal(amounts[name], &quoted) == nil {
				text = quoted
			}
			if text != "null" && !quantities.MatchString(text) {
				problems = append(problems, sdk.Problem{
					Field:   fmt.Sprintf("resources.%s.%s", list, name),
					Message: "expected an amount such as 500m or 512Mi, without an exponent",
				})
			}
		}
	}
	return problems
}
