package main

import (
	"cmp"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

const (
	apiVersion      = "dns.example.org/v1"
	olderAPIVersion = "dns.example.org/v1alpha1"
)

// record is a DNS record, in the configuration and in the zone.
type record struct {
	// Name such as www.example.org. Required.
	Name string `json:"name"`
	// Type: A, AAAA, CNAME or TXT. Default A.
	Type string `json:"type"`
	// TTLSeconds is how long resolvers keep the record. Default 300.
	TTLSeconds int `json:"ttlSeconds"`
	// Values, at least one.
	Values []string `json:"values"`
}

// config is the provider configuration in spec.config.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	record

	// ContinuousReconcile is a schedule for the repair of the record.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`
}

// olderConfig is the provider configuration in its first version, with a single value.
type olderConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Type       string `json:"type"`
	TTLSeconds int    `json:"ttlSeconds"`
	Value      string `json:"value"`
}

func (c *olderConfig) convert() *config {
	return &config{record: record{Name: c.Name, Type: c.Type, TTLSeconds: c.TTLSeconds, Values: []string{c.Value}}}
}

// configs reads configurations of all versions, and returns the record or all problems.
var configs = providerconfig.Format[config, record]{
	Kind: "RecordConfiguration",
	Versions: []providerconfig.Version[config]{
		providerconfig.Newest[config](apiVersion), providerconfig.Older(olderAPIVersion, (*olderConfig).convert),
	},
	Validate: func(d *providerconfig.Document[config]) (*record, field.ErrorList) {
		c := d.Config
		c.Type, c.TTLSeconds = cmp.Or(c.Type, "A"), cmp.Or(c.TTLSeconds, 300)
		problems := providerconfig.ValidateSchedule(c.ContinuousReconcile)
		problems = append(problems, providerconfig.ValidateChoice(
			c.Type, []string{"A", "AAAA", "CNAME", "TXT"}, field.NewPath("type"))...)
		if !strings.Contains(c.Name, ".") {
			problems = append(problems, field.Invalid(field.NewPath("name"), c.Name, "expected a name such as www.example.org"))
		}
		if c.TTLSeconds < 0 {
			problems = append(problems, field.Invalid(field.NewPath("ttlSeconds"), c.TTLSeconds, "expected a positive number"))
		}
		return &c.record, append(problems, c.problemsOfValues(d.APIVersion == olderAPIVersion)...)
	},
}

func (c *config) problemsOfValues(older bool) (problems field.ErrorList) {
	path := field.NewPath("values")
	if len(c.Values) == 0 {
		return field.ErrorList{field.Required(path, "expected at least one value")}
	}
	for i, value := range c.Values {
		at := path.Index(i)
		if older {
			at = field.NewPath("value")
		}
		address, err := netip.ParseAddr(value)
		if isV4 := c.Type == "A"; (isV4 || c.Type == "AAAA") && (err != nil || address.Is4() != isV4) {
			problems = append(problems, field.Invalid(at, value, "expected an address for type "+c.Type))
		}
	}
	return problems
}
