package sdk

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Release is the version of the sdk. The host shows it beside the plugin's own.
const Release = "0.1.0"

// Option sets up what Serve serves.
type Option func(*options)

type options struct {
	name            string
	version         string
	types           []v1alpha1.DeployItemType
	configSchema    []byte
	providerSchemas map[string][]byte
}

// Name sets the name of the plugin, a DNS label such as "helm". It prefixes the names of the plugin's locks and must stay the
// same over versions. Required.
func Name(name string) Option {
	return func(o *options) { o.name = name }
}

// Version sets the version of the plugin, free text, semantic version preferred. Defaults to "unknown".
func Version(version string) Option {
	return func(o *options) { o.version = version }
}

// Types sets the types of deploy items that the deployer serves. Required; a deployer that serves several adds them all.
func Types(types ...v1alpha1.DeployItemType) Option {
	return func(o *options) { o.types = append(o.types, types...) }
}

// ConfigSchema sets the JSON schema of the plugin's own configuration document.
func ConfigSchema(schema []byte) Option {
	return func(o *options) { o.configSchema = schema }
}

// ProviderConfigSchema sets the JSON schema of the provider configuration of deploy items of the given type.
func ProviderConfigSchema(itemType v1alpha1.DeployItemType, schema []byte) Option {
	return func(o *options) { o.providerSchemas[string(itemType)] = schema }
}

var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// newOptions applies the options and returns everything that is wrong with them.
func newOptions(opts []Option) (*options, error) {
	o := &options{version: "unknown", providerSchemas: map[string][]byte{}}
	for _, opt := range opts {
		opt(o)
	}
	var errs []error
	if !namePattern.MatchString(o.name) {
		errs = append(errs, fmt.Errorf("sdk.Name: expected a DNS label such as %q, but found %q", "my-deployer", o.name))
	}
	if len(o.types) == 0 {
		errs = append(errs, errors.New("sdk.Types: name at least one deploy item type"))
	}
	for _, t := range o.types {
		if t == "" {
			errs = append(errs, errors.New("sdk.Types: a deploy item type is empty"))
		}
	}
	return o, errors.Join(errs...)
}
