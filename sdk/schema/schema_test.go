package schema_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/pergola-deploy/pergola/sdk/schema"
	"github.com/pergola-deploy/pergola/sdk/schema/internal/dns"
	"github.com/pergola-deploy/pergola/sdk/schema/internal/dns/v0"
	other "github.com/pergola-deploy/pergola/sdk/schema/internal/other/v0"
)

// The schema has the fields of the types, their comments, and the versions.
func TestSchema(t *testing.T) {
	t.Parallel()
	g := schema.Generator{
		Module: "github.com/pergola-deploy/pergola/sdk/schema", Dir: "./internal/dns",
		Special: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[dns.Class]() {
				return schema.Choice([]dns.Class{"public", "private"})
			}
			return nil
		},
		Adapt: func(name string, definition *jsonschema.Schema) {
			if name == "Record" {
				definition.Title = "A record"
			}
		},
	}
	got, err := g.Schema(schema.Version{APIVersion: "dns.example.org/v1", Kind: "Zone", Config: dns.Zone{}})
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/zone.schema.json"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Types of one name in several packages stay apart, roots and others.
func TestSchemaOfTypesOfOneName(t *testing.T) {
	t.Parallel()
	g := schema.Generator{Module: "github.com/pergola-deploy/pergola/sdk/schema", Dir: "./internal/dns"}
	document, err := g.Schema(
		schema.Version{APIVersion: "v1", Kind: "Zone", Config: dns.Zone{}},
		schema.Version{APIVersion: "v0", Kind: "Zone", Config: v0.Zone{}},
		schema.Version{APIVersion: "v0", Kind: "OtherZone", Config: other.Zone{}})
	var read struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Items struct {
					Ref string `json:"$ref"`
				} `json:"items"`
			} `json:"properties"`
		} `json:"$defs"`
	}
	if err := errors.Join(err, json.Unmarshal(document, &read)); err != nil {
		t.Fatal(err)
	}
	const long = "-github.com-pergola-deploy-pergola-sdk-schema-internal-other-v0"
	for zone, want := range map[string][2]string{
		"Zone-dns": {"Record", "name"}, "Zone-v0": {"Record-v0", "host"}, "Zone" + long: {"Record" + long, "label"},
	} {
		ref := read.Defs[zone].Properties["records"].Items.Ref
		if _, ok := read.Defs[want[0]].Properties[want[1]]; !ok || ref != "#/$defs/"+want[0] {
			t.Errorf("%s: expected records of %s with the field %s, but found %s:\n%s", zone, want[0], want[1], ref, document)
		}
	}
}
