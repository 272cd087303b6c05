package component_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
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
  - {name: inline, componentName: example.com/inline, version: v1, labels: [{name: landscaper.gardener.cloud/component-descriptor, value: {a: 1}}]}
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
  - {name: chart, version: 0.1.0, type: helmChart, access: {type: none}, digest: {hashAlgorithm: SHA-256, normalisationAlgorithm: genericBlobDigest/v1, value: ab}}
  references:
  - {name: base, componentName: example.com/base, version: 1.0.0}
`

func TestParse(t *testing.T) {
	t.Parallel()
	found, err := component.Parse([]byte(v2("{name: chart, version: 0.1.0, type: helmChart, extraIdentity: {os: linux}, access: {type: none}}")), shop, version)
	must(t, err)
	if found.Name != shop || found.Version != version || len(found.Resources) != 1 || len(found.References) != 2 || len(found.RepositoryContexts) != 1 {
		t.Fatalf("found %+v", found)
	}
	resource, reference := found.Resources[0], found.References[0]
	if resource.Name != "chart" || resource.Type != "helmChart" || string(resource.Access) != `{"type":"none"}` || resource.Digest != nil {
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
	for _, asked := range []string{"1.2.3+abc", "1.2.3.build-abc"} {
		if _, err := component.Parse([]byte(document), shop, asked); err != nil {
			t.Errorf("%s: %v", asked, err)
		}
	}
	if _, err := component.Parse([]byte(document), "", ""); err != nil {
		t.Errorf("none is asked for: %v", err)
	}
	for name, asked := range map[string][2]string{"version": {shop, version}, "name": {"example.com/other", "1.2.3+abc"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := component.Parse([]byte(document), asked[0], asked[1])
			refused(t, err, fmt.Sprintf("the component descriptor of %s %s is that of %q %q", asked[0], asked[1], shop, "1.2.3+abc"))
		})
	}
}

// TestToV2: containers get descriptors of schema v2 whatever they were.
func TestToV2(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ document, want string }{
		"v3": {v3, `{"component":{"componentReferences":[{"componentName":"example.com/base","name":"base","version":"1.0.0"}],
			"labels":[{"name":"a","value":{"b":9007199254740993}}],"name":"example.com/shop","provider":"example.com","repositoryContexts":[],
			"resources":[{"access":{"type":"none"},"digest":{"hashAlgorithm":"SHA-256","normalisationAlgorithm":"genericBlobDigest/v1","value":"ab"},
			"name":"chart","type":"helmChart","version":"0.1.0"}],"sources":[],"version":"1.2.3"},"meta":{"schemaVersion":"v2"}}`},
		"v3 with all": {
			`{apiVersion: ocm.software/v3alpha1, kind: ComponentVersion, metadata: {name: example.com/shop, version: 1.2.3, provider: {name: a, labels: [{name: b, value: c}]}}, repositoryContexts: [{type: oci}], signatures: [{name: s}]}`,
			`{"component":{"componentReferences":[],"name":"example.com/shop","provider":"{\"labels\":[{\"name\":\"b\",\"value\":\"c\"}],\"name\":\"a\"}",
			"repositoryContexts":[{"type":"oci"}],"resources":[],"sources":[],"version":"1.2.3"},"meta":{"schemaVersion":"v2"},"signatures":[{"name":"s"}]}`,
		},
		"v2": {
			`{meta: {schemaVersion: v2}, component: {name: example.com/shop, version: 1.2.3, provider: a, sources: null}, signatures: [], nestedDigests: [1]}`,
			`{"component":{"name":"example.com/shop","provider":"a","sources":null,"version":"1.2.3"},"meta":{"schemaVersion":"v2"},"nestedDigests":[1],"signatures":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := component.Parse([]byte(c.document), shop, version)
			must(t, err)
			want := strings.NewReplacer("\n", "", "\t", "").Replace(c.want)
			if diff := cmp.Diff(want, string(found.V2)); diff != "" {
				t.Errorf("-want +found:\n%s", diff)
			}
			again, err := component.Parse(found.V2, shop, version)
			if err != nil || len(again.Resources) != len(found.Resources) {
				t.Errorf("parsed again: found %+v and error %v", again, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const head, v3Head = "meta: {schemaVersion: v2}\ncomponent: {name: example.com/shop, version: 1.2.3", "kind: ComponentVersion\napiVersion: ocm.software/v3alpha1\n"
	for name, c := range map[string]struct{ document, says string }{
		"no YAML":            {"a: [hunter2", "the component descriptor of example.com/shop 1.2.3 cannot be read: it is no YAML"},
		"aliases":            {v2("") + "a: &a [" + strings.Repeat("x,", 5000) + "]\nb: [" + strings.Repeat("*a,", 1000) + "]\n", "its aliases stand for more"},
		"deep":               {v2("") + "a: " + strings.Repeat("[", 20_000), "cannot be read: it is no YAML"},
		"empty":              {"", `it has the schema ""`},
		"other schema":       {"meta: {schemaVersion: v1}", `it has the schema "v1", but expected meta.schemaVersion v2, or apiVersion ocm.software/v3alpha1`},
		"legacy v3":          {"{apiVersion: ocm.gardener.cloud/v3alpha1, kind: ComponentVersion}", `it has the schema "ocm.gardener.cloud/v3alpha1"`},
		"other kind":         {"{apiVersion: ocm.software/v3alpha1, kind: Component}", "and kind ComponentVersion"},
		"both schemas":       {"apiVersion: ocm.software/v3alpha1\n" + v2(""), "it has an apiVersion and a meta.schemaVersion"},
		"version, no text":   {"meta: {schemaVersion: v2}\ncomponent: {name: example.com/shop, version: 1.0}", "its field component.version is of the type number, but expected a text"},
		"no list":            {head + ", resources: {}}", "its field component.resources is of the wrong type"},
		"provider":           {v3Head + "metadata: {name: example.com/shop, version: 1.2.3, provider: []}", "metadata.provider is no object"},
		"attribute, no text": {v2("{name: chart, extraIdentity: {cpus: 2}}"), "expected a text"},
		"name of reference":  {head + ", componentReferences: [{name: a, componentName: ../a, version: 1.0.0}]}", `reference "a" has the name "../a"`},
		"its version":        {head + ", componentReferences: [{name: a, componentName: example.com/a, version: a/b}]}", `reference "a" has the version "a/b"`},
		"resource twice":     {v2("{name: chart, version: 0.1.0}, {name: chart, version: 0.1.0}"), `has "chart" version="0.1.0" twice in resources`},
		"source twice":       {head + ", sources: [{name: a, version: v1}, {name: a, version: v1}]}", `has "a" version="v1" twice in sources`},
		"reference twice": {
			head + ", componentReferences: [{name: a, componentName: example.com/a, version: v1}, {name: a, componentName: example.com/b, version: v1}]}",
			`has "a" version="v1" twice in componentReferences`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := component.Parse([]byte(c.document), shop, version)
			refused(t, err, c.says)
		})
	}
}

// TestIdentity: a resource is found by exactly its identity.
func TestIdentity(t *testing.T) {
	t.Parallel()
	type id = component.Identity
	for name, c := range map[string]struct {
		resources string
		found     []id // each leads to a resource
		missing   []id
	}{
		"name":             {"{name: chart, version: 0.1.0}", []id{{"name": "chart"}}, []id{{"name": "chart", "version": "0.1.0"}, {"name": "other"}, {}, nil}},
		"extraIdentity":    {"{name: chart, version: 0.1.0, extraIdentity: {os: linux}}", []id{{"name": "chart", "os": "linux"}}, []id{{"name": "chart"}, {"name": "chart", "os": "linux", "version": "0.1.0"}}},
		"other attributes": {"{name: chart, version: v1}, {name: chart, version: v1, extraIdentity: {os: linux}}", []id{{"name": "chart"}, {"name": "chart", "os": "linux"}}, []id{{"name": "chart", "version": "v1"}}},
		"alike":            {"{name: chart, version: v1}, {name: chart, version: v2}", []id{{"name": "chart", "version": "v1"}, {"name": "chart", "version": "v2"}}, []id{{"name": "chart"}}},
		"own version":      {"{name: chart, version: v1, extraIdentity: {version: x}}", []id{{"name": "chart", "version": "x"}}, []id{{"name": "chart"}, {"name": "chart", "version": "v1"}}},
		"alike but for it": {"{name: chart, version: v1, extraIdentity: {version: x}}, {name: chart, version: v2}", []id{{"name": "chart", "version": "x"}, {"name": "chart", "version": "v2"}}, []id{{"name": "chart"}, {"name": "chart", "version": "v1"}}},
		"long attributes":  {"{name: chart, extraIdentity: {a: " + strings.Repeat("x", 200) + "1}}, {name: chart, extraIdentity: {a: " + strings.Repeat("x", 200) + "2}}", []id{{"name": "chart", "a": strings.Repeat("x", 200) + "1"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := component.Parse([]byte(v2(c.resources)), shop, version)
			must(t, err)
			for _, identity := range c.found {
				if found, err := d.Resource(identity); err != nil || found.Name != identity["name"] {
					t.Errorf("%s: found %+v and error %v", identity, found, err)
				}
			}
			for _, identity := range c.missing {
				_, err := d.Resource(identity)
				refused(t, err, "component example.com/shop 1.2.3 has no resource "+identity.String()+" (it has \"chart\"")
			}
		})
	}
}

// TestResourceListsWhatThereIs, but not more than people read.
func TestResourceListsWhatThereIs(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("{name: chart, extraIdentity: {n: \"%03d\", long: %s}}", i, strings.Repeat("x", 300)))
	}
	d, err := component.Parse([]byte(v2(strings.Join(many, ", "))), shop, version)
	must(t, err)
	_, err = d.Resource(component.Identity{"name": "chart"})
	refused(t, err, "and 80 more); name a resource with all of its extraIdentity")
	_, err = (&component.Descriptor{Name: shop, Version: version}).Resource(component.Identity{"name": "chart"})
	refused(t, err, "(it has none)")
}

func TestBlueprint(t *testing.T) {
	t.Parallel()
	d, err := component.Parse([]byte(v2("{name: new, type: landscaper.gardener.cloud/blueprint}, {name: old, type: blueprint}, {name: chart, type: helmChart}")), shop, version)
	must(t, err)
	for _, name := range []string{"new", "old"} {
		if found, err := d.Blueprint(name); err != nil || found.Name != name {
			t.Errorf("%s: found %+v and error %v", name, found, err)
		}
	}
	_, err = d.Blueprint("chart")
	refused(t, err, `resource "chart" of component example.com/shop 1.2.3 has the type "helmChart"`)
	_, err = d.Blueprint("none")
	refused(t, err, `has no resource "none" (it has "new", "old", "chart")`)
}

// FuzzParse: names that are looked up are fit for a registry, and what was parsed is the same when its form of v2 is parsed.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{v2("{name: chart}"), v3, "", "null", "{meta: {schemaVersion: v2}, component: {name: a.bc/d, version: v1, resources: [null]}}"} {
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
			return !strings.Contains(component.Place{}.Repository(name), "..") && !strings.ContainsAny(component.TagOf(version), "/+@:")
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
