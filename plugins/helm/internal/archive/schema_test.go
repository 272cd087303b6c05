package archive_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
)

func TestSchemasThatReferToOthersAreRefused(t *testing.T) {
	t.Parallel()
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
	const draft4 = `"$schema":"http://json-schema.org/draft-04/schema#"`
	cases := []struct {
		reason, schema, says string
	}{
		{"a file", `{"$ref":"file:///etc/passwd"}`, `"file:///etc/passwd"`},
		{"an address", `{"properties":{"a":{"$ref":"http://169.254.169.254/latest"}}}`, "169.254"},
		{"an address, encrypted", `{"properties":{"a":{"$ref":"https://example.org/a.json"}}}`, "example.org"},
		{"a name, for which Helm makes something up", `{"$ref":"urn:example:a"}`, "urn:example:a"},
		{"a path, which is one from the root", `{"$ref":"etc/passwd"}`, `"etc/passwd"`},
		{"a host of the same scheme", `{"$id":"http://example.org/a","$ref":"//example.com/b"}`, "//example.com/b"},
		{"a path at the address that the schema gives itself", `{"$id":"http://example.org/a.json","properties":{"a":{"$ref":"b.json"}}}`, "b.json"},
		{"the same with the older word", `{` + draft4 + `,"id":"http://example.org/a.json","properties":{"a":{"$ref":"b.json"}}}`, "b.json"},
		{"its own name, with the address changed", `{` + draft4 + `,"id":"http://example.org/","properties":{"a":{"$ref":"values.schema.json"}}}`, "values.schema.json"},
		{"a dynamic reference", `{"properties":{"a":{"$dynamicRef":"http://example.org/a#b"}}}`, "example.org"},
		{"a recursive reference", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"http://example.org/a"}`, "example.org"},
		{"in a list", `{"allOf":[true,{"anyOf":[{"$ref":"a"}]}]}`, `"a"`},
		{"where no schema is, as long as nobody points to it", `{"a":{"$ref":"b"},"$ref":"#/a"}`, `"b"`},
		{"in a bundled schema", `{"$defs":{"a":{"$id":"http://example.org/a","$ref":"b"}}}`, `"b"`},
		{"a schema of another language", `{"$schema":"http://example.org/meta"}`, "meta-schema"},
		{"one of its parts is", `{"properties":{"a":{"$id":"http://example.org/a","$schema":"file:///etc/passwd"}}}`, "meta-schema"},
		{"a meta-schema that is not brought along", `{"$schema":"http://json-schema.org/draft-03/schema#"}`, "meta-schema"},
		{"one that only looks known", `{"$schema":"http://json-schema.org/draft-07/schema/../../evil"}`, "meta-schema"},
		{"without a scheme", `{"properties":{"a":{"$schema":"json-schema.org/schema"}}}`, "meta-schema"},
		{"a part of the meta-schemas that is not known", `{"$ref":"https://json-schema.org/draft/2020-12/evil"}`, "evil"},
		{
			"an address is given where it may be found late", `{"a":{"b":{"$id":"http://example.org/a"}},"allOf":[{"$ref":"#/a/b"},{"$ref":"http://example.org/a"}]}`,
			"example.org/a",
		},
		{
			"an address given elsewhere changes what a path means", `{"properties":{"a":{"$id":"http://example.org/","items":{"$ref":"values.schema.json"}}}}`,
			`"values.schema.json"`,
		},
		{"the address is not one in this draft", `{` + draft7 + `,"$defs":{"a":{"$id":"http://example.org/a"}},"properties":{"a":{"$ref":"http://example.org/a"}}}`, "example.org/a"},
		{"nor beside a reference", `{` + draft7 + `,"definitions":{"a":{"$id":"http://example.org/a","$ref":"#"}},"properties":{"a":{"$ref":"http://example.org/a"}}}`, "example.org/a"},
		{
			"nor when it is in another draft",
			`{"$defs":{"a":{"$id":"http://example.org/a",` + draft4 + `}},"properties":{"a":{"$ref":"http://example.org/a"}}}`, "example.org/a",
		},
		{"the last of two keys counts", `{"$ref":"#","$ref":"http://example.org/a"}`, "example.org/a"},
		{"a key that is spelt with escapes", `{"\u0024ref":"http://example.org/a"}`, "example.org/a"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			for _, in := range []string{"", "charts/a/"} {
				entries := shop(file(in+"values.schema.json", c.schema), file("charts/a/Chart.yaml", "name: a\nversion: 1.0.0"))
				_, err := read(pack(t, entries...), generous)
				refused(t, err, archive.Invalid, in+"values.schema.json", c.says)
			}
		})
	}
}

func TestSchemasThatAreTooMuch(t *testing.T) {
	t.Parallel()
	cases := []struct {
		reason, schema, says string
	}{
		{"deep", strings.Repeat(`{"not":`, 700_000), "deeper than 200"},
		{"deep, closed", strings.Repeat(`{"not":`, 201) + "{}" + strings.Repeat("}", 201), "deeper than 200"},
		{"lists in each other", strings.Repeat(`[`, 201) + strings.Repeat("]", 201), "deeper than 200"},
		{"many schemas", `{"properties":{` + numbered(10_000, `"a%d":{},`) + `"b":true}}`, "10002 objects"},
		{"many values", `{"enum":[` + strings.Repeat("1,", 200_000) + `1]}`, "values"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			_, err := read(pack(t, shop(file("values.schema.json", c.schema))...), generous)
			refused(t, err, archive.LimitExceeded, "values.schema.json", c.says)
		})
	}
}

func TestSchemasThatReferToThemselvesOnly(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"no reference":                 `{"type":"object","required":["$ref"],"properties":{"$ref":{"type":"string"},"id":{},"$id":{},"$schema":{}}}`,
		"a schema that is a word":      `true`,
		"places":                       `{"$defs":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"#"}}}`,
		"anchors":                      `{"$defs":{"a":{"$anchor":"x"}},"properties":{"a":{"$ref":"#x"}}}`,
		"anchors of draft 7":           `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"$id":"#x"}},"properties":{"a":{"$ref":"#x"}}}`,
		"itself by its address":        `{"$id":"http://example.org/a","$defs":{"b":true},"properties":{"a":{"$ref":"http://example.org/a#/$defs/b"}}}`,
		"itself by the name it has":    `{"$defs":{"b":true},"properties":{"a":{"$ref":"values.schema.json#/$defs/b"}}}`,
		"itself by a path":             `{"$id":"http://example.org/dir/a.json","$defs":{"b":true},"properties":{"a":{"$ref":"a.json#/$defs/b"}}}`,
		"bundled, by address":          `{"$defs":{"x":{"$id":"http://example.org/x","type":"string"}},"properties":{"a":{"$ref":"http://example.org/x"}}}`,
		"bundled, in the older place":  `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"x":{"$id":"http://example.org/x"}},"properties":{"a":{"$ref":"http://example.org/x#"}}}`,
		"bundled, by path":             `{"$id":"http://example.org/a","$defs":{"x":{"$id":"x.json"},"y":{"$id":"dir/y.json","items":{"$ref":"../x.json"}}},"properties":{"a":{"$ref":"dir/y.json"}}}`,
		"the meta-schema":              `{"properties":{"a":{"$ref":"http://json-schema.org/draft-07/schema#/definitions/simpleTypes"}}}`,
		"an address elsewhere, unused": `{"properties":{"a":{"$id":"http://example.org/a","properties":{"b":{"$ref":"#/x"}},"x":true}}}`,
		"data that look like an id":    `{"properties":{"a":{"default":{"$id":"http://example.org/a","id":"x"}}}}`,
		"brackets in a text":           `{"description":"a \" ` + strings.Repeat("[", 300) + `"}`,
		"dynamic anchors":              `{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`,
	}
	for name, schema := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := read(pack(t, shop(file("values.schema.json", schema))...), generous); err != nil {
				t.Fatal(err)
			}
			if asked, err := compile(schema); err != nil || len(asked) > 0 {
				t.Errorf("expected that Helm's validator accepts it and asks for nothing, but found %v, asked for %q", err, asked)
			}
		})
	}
}

// asking refuses what it is asked for, and remembers it.
type asking struct{ urls []string }

func (a *asking) Load(url string) (any, error) {
	a.urls = append(a.urls, url)
	return nil, errors.New("refused")
}

// compile does what Helm does with a schema, and returns what it asks for.
func compile(schema string) (asked []string, err error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, err
	}
	loader := &asking{}
	defer func() {
		if problem := recover(); problem != nil { // Helm recovers from it, too
			asked, err = loader.urls, fmt.Errorf("panic: %v", problem)
		}
	}()
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(loader)
	if err := compiler.AddResource("file:///values.schema.json", document); err != nil {
		return nil, err
	}
	_, err = compiler.Compile("file:///values.schema.json")
	return loader.urls, err
}

// Whatever a schema is made of that has to do with references: if it is accepted, Helm's validator asks for nothing, in whichever order it
// goes about it.
func TestAcceptedSchemasAskForNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		schema := "{" + strings.Join(rapid.SliceOfNDistinct(members(3), 0, 6, key).Draw(t, "members"), ",") + "}"
		if _, err := read(pack(t, shop(file("values.schema.json", schema))...), generous); err != nil {
			t.Skip("refused")
		}
		for range 5 {
			if asked, _ := compile(schema); len(asked) > 0 {
				t.Fatalf("the schema %s is accepted, but Helm's validator asks for %q", schema, asked)
			}
		}
	})
}

func key(member string) string {
	name, _, _ := strings.Cut(member, ":")
	return name
}

// members are those of an object in a schema, such as they matter for references.
func members(depth int) *rapid.Generator[string] {
	addresses := []string{"#", "#/$defs/a", "#/a", "#/definitions/b", "#x", "a", "b.json", "a#/x", "http://example.org/a", "http://example.org/b.json", "values.schema.json", "urn:a:b", ""}
	metas := []string{"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema", "https://json-schema.org/draft/2020-12/schema"}
	text := func(keys, values []string) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%q:%q", rapid.SampledFrom(keys).Draw(t, "key"), rapid.SampledFrom(values).Draw(t, "value"))
		})
	}
	generators := []*rapid.Generator[string]{
		text([]string{"$ref", "$ref", "$dynamicRef", "$recursiveRef", "$id", "$id", "id"}, addresses),
		text([]string{"$schema"}, metas),
		text([]string{"$anchor", "$dynamicAnchor"}, []string{"x", "y"}),
	}
	if depth > 0 {
		object := func(t *rapid.T) string {
			return "{" + strings.Join(rapid.SliceOfNDistinct(members(depth-1), 0, 4, key).Draw(t, "members"), ",") + "}"
		}
		generators = append(generators, rapid.Custom(func(t *rapid.T) string {
			name := rapid.SampledFrom([]string{"not", "a", "items", "default"}).Draw(t, "key")
			return fmt.Sprintf("%q:%s", name, object(t))
		}), rapid.Custom(func(t *rapid.T) string {
			name := rapid.SampledFrom([]string{"$defs", "definitions", "properties", "patternProperties"}).Draw(t, "key")
			return fmt.Sprintf(`%q:{"a":%s,"b":%s}`, name, object(t), object(t))
		}), rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf(`"allOf":[%s,%s]`, object(t), object(t))
		}))
	}
	return rapid.OneOf(generators...)
}
