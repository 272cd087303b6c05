// Package config reads the provider configurations of the container deployer, and the configuration of the plugin
// itself, and reports all mistakes in them.
package config

import (
	"cmp"
	_ "embed" // for Schema
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/container/internal/components"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// Schema is the JSON schema of the provider configuration. `make generate` writes it.
//
//go:embed providerconfiguration.schema.json
var Schema []byte

// Config is a valid provider configuration with the defaults of the plugin's settings.
type Config struct {
	*v1alpha1.ProviderConfiguration

	// Files of the blueprint, by their paths; nil for none or a reference.
	Files map[string][]byte
	// MainResources are the resources of the container main.
	MainResources corev1.ResourceRequirements
	// Unknown are the ignored fields, as texts for the user.
	Unknown []string
}

type document = providerconfig.Document[v1alpha1.ProviderConfiguration]

// format returns the form of the provider configurations. A deployer without settings has that of the defaults.
func format(s *Settings) providerconfig.Format[v1alpha1.ProviderConfiguration, Config] {
	return providerconfig.Format[v1alpha1.ProviderConfiguration, Config]{
		Kind: v1alpha1.ProviderConfigurationKind,
		Versions: []providerconfig.Version[v1alpha1.ProviderConfiguration]{
			providerconfig.Newest[v1alpha1.ProviderConfiguration](v1alpha1.GroupVersion.String()),
		},
		Undecodable: checkQuantities,
		Validate:    func(d *document) (*Config, field.ErrorList) { return checkConfig(d, s) },
	}
}

// Read reads and validates the provider configuration of a deploy item. The error names all its problems.
func Read(req *sdk.Request, s *Settings) (*Config, error) {
	return format(s).Read(req, s.Strict)
}

// ScheduleOf returns the schedule of an item, for continuousreconcile.FromSpec; nil for none.
func ScheduleOf(item *landscaper.DeployItem) (*managedresource.ContinuousReconcile, error) {
	return format(nil).ScheduleOf(item)
}

func checkConfig(d *document, s *Settings) (*Config, field.ErrorList) {
	document := d.Config
	c := &Config{ProviderConfiguration: document, MainResources: s.Resources, Unknown: d.Unknown}
	if document.Resources != nil {
		c.MainResources = *document.Resources
	}
	document.Image = cmp.Or(document.Image, s.DefaultImage)
	var problems field.ErrorList
	if document.Image == "" {
		problems = append(problems, field.Required(field.NewPath("image"), "say which image to run"))
	}
	if b := document.Blueprint; b != nil {
		if b.Inline != nil && b.Reference == nil {
			files, err := components.ReadFiles(b.Inline.Filesystem)
			if err != nil {
				problems = append(problems, invalid(field.NewPath("blueprint", "inline", "filesystem"), err.Error()))
			}
			c.Files = files
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
	problems = append(problems, providerconfig.ValidateSchedule(document.ContinuousReconcile)...)
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
func checkPlace(document *v1alpha1.ProviderConfiguration, s *Settings) field.ErrorList {
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
func checkQuantities(config []byte) []sdk.Problem {
	// By exact names, as in the decoder.
	var document, resources map[string]json.RawMessage
	if json.Unmarshal(config, &document) != nil ||
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
