package component_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/test/cases"
)

// v2 is a descriptor of schema v2 with the resources, in YAML.
func v2(resources string) string {
	return `
meta: {schemaVersion: v2}
component:
  name: example.com/shop
  version: 1.2.3
  provider: example.com
  repositoryContexts: [{type: OCIRegistry, baseUrl: reg.example}]
  sources: null
  componentReferences:
  - {name: base, componentName: example.com/base, version: 1.0.0+abc}
  - {name: inline, componentName: example.com/inline, version: v1,
     labels: [{name: landscaper.gardener.cloud/component-descriptor, value: {a: 1}}]}
  resources: [` + resources + `]
`
}

const v3 = `
apiVersion: ocm.software/v3alpha1
kind: ComponentVersion
metadata:
  name: example.com/shop
  version: 1.2.3
  provider: {name: example.com}
  labels: [{name: a, value: {b: 9007199254740993}}]
spec:
  resources:
  - {name: chart, version: 0.1.0, type: helmChart, access: {type: none},
     digest: {hashAlgorithm: SHA-256, normalisationAlgorithm: genericBlobDigest/v1, value: ab}}
  references:
  - {name: base, componentName: example.com/base, version: 1.0.0}
`

func TestParse(t *testing.T) {
	t.Parallel()
	const chart = "{name: chart, version: 0.1.0, type: helmChart, extraIdentity: {os: linux}, access: {type: none}}"
	found, err := component.Parse([]byte(v2(chart)), shop, version)
	must(t, err)
	if found.Name != shop || found.Version != version || len(found.Resources) != 1 || len(found.References) != 2 ||
		len(found.RepositoryContexts) != 1 {
		t.Fatalf("found %+v", found)
	}
	resource, reference := found.Resources[0], found.References[0]
	if resource.Name != "chart" || resource.Type != "helmChart" || string(resource.Access) != `{"type":"none"}` ||
		resource.Digest != nil {
		t.Errorf("found resource %+v", resource)
	}
	if reference.Component != "example.com/base" || reference.Version != "1.0.0+abc" || reference.Inline() != nil {
		t.Errorf("found reference %+v", reference)
	}
	if inline := string(found.References[1].Inline()); inline != `{"a":1}` {
		t.Errorf("found inline descriptor %s", inline)
	}
}

// TestParseVersions: a tag may be asked for instead of the version that it stands for, and nothing else.
func TestParseVersions(t *testing.T) {
	t.Parallel()
	document := strings.ReplaceAll(v2(""), "version: 1.2.3", "version: 1.2.3+abc")
	for _, asked := range [][2]string{{shop, "1.2.3+abc"}, {shop, "1.2.3.build-abc"}, {"", ""}} {
		_, err := component.Parse([]byte(document), asked[0], asked[1])
		must(t, err)
	}
	for _, asked := range [][2]string{{shop, version}, {"example.com/other", "1.2.3+abc"}} {
		_, err := component.Parse([]byte(document), asked[0], asked[1])
		says := fmt.Sprintf("the component descriptor of %s %s is that of %q", asked[0], asked[1], shop)
		refused(t, err, says+` "1.2.3+abc"`)
	}
}

// TestToV2: containers get descriptors of schema v2 whatever they were.
func TestToV2(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/v2.yaml", func(t *testing.T, c struct {
		Document string
		Want     json.RawMessage
	},
	) {
		found, err := component.Parse([]byte(c.Document), shop, version)
		must(t, err)
		check(t, string(c.Want), string(found.V2), nil, "")
		again, err := component.Parse(found.V2, shop, version)
		must(t, err)
		check(t, len(found.Resources), len(again.Resources), nil, "")
	}, "$V3", v3)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/descriptor.yaml", func(t *testing.T, c struct{ Document, Resources, Says string }) {
		if c.Resources != "" {
			c.Document = v2(c.Resources)
		}
		_, err := component.Parse([]byte(c.Document), shop, version)
		refused(t, err, c.Says)
	}, "$V2", v2(""))
	for document, says := range map[string]string{
		"a: &a [" + strings.Repeat("x,", 5000) + "]\nb: [" + strings.Repeat("*a,", 1000) + "]\n": "its aliases stand for",
		"a: " + strings.Repeat("[", 20_000): "cannot be read: it is no YAML",
	} {
		_, err := component.Parse([]byte(v2("")+document), shop, version)
		refused(t, err, says)
	}
}

// TestIdentity: a resource is found by exactly its identity.
func TestIdentity(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/identity.yaml", func(t *testing.T, c struct {
		Resources      string
		Found, Missing []component.Identity
	},
	) {
		d, err := component.Parse([]byte(v2(c.Resources)), shop, version)
		must(t, err)
		for _, identity := range c.Found {
			found, err := d.Resource(identity)
			must(t, err)
			check(t, identity["name"], found.Name, nil, "")
		}
		for _, identity := range c.Missing {
			_, err := d.Resource(identity)
			refused(t, err, "component example.com/shop 1.2.3 has no resource "+identity.String()+" (it has \"chart\"")
		}
	}, "$LONG", strings.Repeat("x", 200))
}

// TestResourceListsWhatThereIs, but not more than people read.
func TestResourceListsWhatThereIs(t *testing.T) {
	t.Parallel()
	many := numbered(100, "{name: chart, extraIdentity: {n: \"%03d\", long: "+strings.Repeat("x", 300)+"}}")
	d, err := component.Parse([]byte(v2(strings.Join(many, ", "))), shop, version)
	must(t, err)
	_, err = d.Resource(component.Identity{"name": "chart"})
	refused(t, err, "and 80 more); name a resource with all of its extraIdentity")
	_, err = (&component.Descriptor{Name: shop, Version: version}).Resource(component.Identity{"name": "chart"})
	refused(t, err, "(it has none)")
}

func TestBlueprint(t *testing.T) {
	t.Parallel()
	const resources = "{name: new, type: landscaper.gardener.cloud/blueprint}, {name: old, type: blueprint}, " +
		"{name: chart, type: helmChart}"
	d, err := component.Parse([]byte(v2(resources)), shop, version)
	must(t, err)
	for _, name := range []string{"new", "old"} {
		found, err := d.Blueprint(name)
		must(t, err)
		check(t, name, found.Name, nil, "")
	}
	_, err = d.Blueprint("chart")
	refused(t, err, `resource "chart" of component example.com/shop 1.2.3 has the type "helmChart"`)
	_, err = d.Blueprint("none")
	refused(t, err, `has no resource "none" (it has "new", "old", "chart")`)
}

// FuzzParse: names that are looked up are fit for a registry, and the form of v2 has the same content.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		v2("{name: chart}"), v3, "", "null",
		"{meta: {schemaVersion: v2}, component: {name: a.bc/d, version: v1, resources: [null]}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		d, err := component.Parse(document, "", "")
		if err != nil {
			if len(err.Error()) > 4000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			return
		}
		isSafe := func(name, version string) bool {
			return !strings.Contains(component.Place{}.Repository(name), "..") &&
				!strings.ContainsAny(component.TagOf(version), "/+@:")
		}
		if !json.Valid(d.V2) || component.CheckName("", d.Name, d.Version) == nil && !isSafe(d.Name, d.Version) {
			t.Errorf("found %+v", d)
		}
		for _, r := range d.References {
			if !isSafe(r.Component, r.Version) {
				t.Errorf("found the reference %+v", r)
			}
		}
		again, err := component.Parse(d.V2, d.Name, d.Version)
		if err != nil {
			t.Fatalf("parse %s again: %v", d.V2, err)
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Errorf("-once +twice:\n%s", diff)
		}
	})
}
