package providerconfig_test

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// zone is the newest version of a provider configuration, oldZone the one before.
type zone struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Domain     string   `json:"domain"`
	Class      string   `json:"class"`
	Servers    []string `json:"servers"`
}

type oldZone struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Domain     string `json:"domain"`
	Server     string `json:"server"`
}

func (o *oldZone) toNewest() *zone {
	return &zone{Domain: o.Domain, Servers: []string{o.Server}}
}

var zones = providerconfig.Format[zone, zone]{
	Kind: "Zone",
	Versions: []providerconfig.Version[zone]{
		providerconfig.Newest[zone]("v2"),
		providerconfig.Older("v1", (*oldZone).toNewest),
	},
	Validate: func(d *providerconfig.Document[zone]) (*zone, field.ErrorList) {
		problems := providerconfig.ValidateChoice(d.Config.Class, []string{"public", "private"}, field.NewPath("class"))
		if d.Config.Domain == "" {
			problems = append(problems, field.Required(field.NewPath("domain"), "say which domain to serve"))
		}
		return d.Config, problems
	},
}

func requestOf(config string) *sdk.Request {
	item := &landscaper.DeployItem{}
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(config)}
	return &sdk.Request{DeployItem: item}
}

func Example() {
	for _, config := range []string{
		`{"apiVersion": "v1", "kind": "Zone", "domain": "example.org", "server": "a"}`,
		`{"apiVersion": "v2", "kind": "Zone", "domian": "example.org", "class": "secret", "servers": "a"}`,
		`{"apiVersion": "v3", "kind": "Zone"}`,
	} {
		zone, err := zones.Read(requestOf(config), true)
		if err != nil {
			fmt.Println(strings.ReplaceAll(err.Error(), "; ", "\n  "))
			continue
		}
		fmt.Println(zone.Domain, zone.Servers)
	}
	// Output:
	// example.org [a]
	// spec.config: servers: expected a list, but found a text
	//   class: Unsupported value: "secret": supported values: "public", "private"
	//   domain: Required value: say which domain to serve
	//   unknown field "domian"
	//   did you mean domain?
	// spec.config: expected kind Zone of apiVersion v2 or v1, but found kind "Zone" of apiVersion "v3"
}
