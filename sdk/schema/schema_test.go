package schema_test

import (
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/pergola-deploy/pergola/sdk/schema"
	"github.com/pergola-deploy/pergola/sdk/schema/internal/dns"
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
