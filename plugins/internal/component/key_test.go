package component_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want component.Key
	}{
		"name": {
			text: "Y29tcG9uZW50OgogIG5hbWU6IGV4YW1wbGUuY29tL3Nob3AKICB2ZXJzaW9uOiAxLjIuMwpyZXNvdXJjZToKICBuYW1lOiBjaGFydAo=",
			want: component.Key{Component: shop, Version: version, Resource: component.Identity{"name": "chart"}},
		},
		"attributes": {
			text: "Y29tcG9uZW50OgogIG5hbWU6IGV4YW1wbGUuY29tL3Nob3AKICB2ZXJzaW9uOiAxLjIuMwpyZXNvdXJjZToKICBhcmNoaXRlY3R1cmU6IGFtZDY0CiAgbmFtZTogY2hhcnQKICBvczogbGludXgK",
			want: component.Key{Component: shop, Version: version, Resource: component.Identity{"name": "chart", "architecture": "amd64", "os": "linux"}},
		},
		"quoted version": {
			text: "Y29tcG9uZW50OgogIG5hbWU6IGV4YW1wbGUuY29tL3Nob3AKICB2ZXJzaW9uOiAiMS4yIgpyZXNvdXJjZToKICBuYW1lOiBjaGFydAogIHZlcnNpb246IDAuMy4wCg==",
			want: component.Key{Component: shop, Version: "1.2", Resource: component.Identity{"name": "chart", "version": "0.3.0"}},
		},
		"JSON": {
			text: "eyJjb21wb25lbnQiOnsibmFtZSI6ImV4YW1wbGUuY29tL3Nob3AiLCJ2ZXJzaW9uIjoiMS4yLjMifSwicmVzb3VyY2UiOnsibmFtZSI6ImNoYXJ0In19",
			want: component.Key{Component: shop, Version: version, Resource: component.Identity{"name": "chart"}},
		},
		"unknown fields": {
			text: base64.StdEncoding.EncodeToString([]byte("component: {name: example.com/shop, version: v1.2.3+abc, other: 1}\nresource: {name: chart}\nother: []")) + "\n",
			want: component.Key{Component: shop, Version: "v1.2.3+abc", Resource: component.Identity{"name": "chart"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := component.ParseKey(c.text)
			if diff := cmp.Diff(c.want, found); err != nil || diff != "" {
				t.Errorf("found error %v and -want +found:\n%s", err, diff)
			}
		})
	}
}

func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	const shop = "component: {name: example.com/shop, version: 1.2.3}\n"
	for name, c := range map[string]struct{ document, says string }{
		"no YAML":           {"a: [hunter2", "it is no YAML"},
		"a text":            {"hunter2", "it does not have the form"},
		"empty":             {"", "component.name in the key of the resource is missing"},
		"no version":        {"component: {name: example.com/shop}\nresource: {name: chart}", "component.version in the key of the resource is missing"},
		"a number":          {"component: {name: example.com/shop, version: 1.0}\nresource: {name: chart}", "component.version in the key of the resource is a number or a boolean, but expected a text; put it in quotes"},
		"number of a name":  {shop + "resource: {name: 12}", "resource.name in the key of the resource is a number"},
		"boolean":           {shop + "resource: {name: chart, debug: yes}", "resource.debug in the key of the resource is a number or a boolean"},
		"nested":            {shop + "resource: {name: chart, extraIdentity: {os: linux}}", "resource.extraIdentity in the key of the resource is an object"},
		"no resource":       {shop, "resource.name in the key of the resource is missing"},
		"no object":         {shop + "resource: chart", "its field resource is of the wrong type"},
		"short name":        {shop + "resource: {name: a}", `resource.name in the key of the resource is "a"`},
		"name of an other":  {shop + "resource: {name: Chart}", `resource.name in the key of the resource is "Chart"`},
		"component, path":   {"component: {name: example.com, version: 1.2.3}\nresource: {name: chart}", `has the name "example.com"`},
		"component, dots":   {"component: {name: example.com/../shop, version: 1.2.3}\nresource: {name: chart}", `has the name "example.com/../shop"`},
		"component, long":   {"component: {name: example.com/" + strings.Repeat("x", 255) + ", version: 1.2.3}\nresource: {name: chart}", `has the name "example.com/xxx`},
		"version":           {"component: {name: example.com/shop, version: latest}\nresource: {name: chart}", `has the version "latest"`},
		"version too long":  {"component: {name: example.com/shop, version: 1.2.3-" + strings.Repeat("x", 128) + "}\nresource: {name: chart}", `has the version "1.2.3-xxx`},
		"two fields":        {shop + shop + "resource: {name: chart}", "it is no YAML"},
		"control character": {shop + `resource: {name: chart, "a\nb": 1}`, `resource.a\nb in the key of the resource is a number`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := component.ParseKey(base64.StdEncoding.EncodeToString([]byte(c.document)))
			refused(t, err, c.says)
		})
	}
	for _, text := range []string{"=", "Y29tcG9uZW50_", "component: {}"} {
		_, err := component.ParseKey(text)
		refused(t, err, "it cannot be read as base64")
	}
}

// TestIdentityText: a message has room for some attributes.
func TestIdentityText(t *testing.T) {
	t.Parallel()
	identity := component.Identity{"name": "chart"}
	for n := range 1000 {
		identity[fmt.Sprintf("a%d", n)] = "b"
	}
	if text := identity.String(); len(text) > 1000 || !strings.HasSuffix(text, "…") {
		t.Errorf("found %s", text)
	}
}
