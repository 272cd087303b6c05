package main

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

func TestSchemaOf(t *testing.T) {
	t.Parallel()
	one := map[v1alpha1.DeployItemType][]byte{"example.org/a": []byte(`{"a":1}`)}
	two := map[v1alpha1.DeployItemType][]byte{"example.org/a": []byte(`{"a":1}`), "example.org/b": []byte(`{"b":1}`)}
	for name, c := range map[string]struct {
		reason   string
		schemas  map[v1alpha1.DeployItemType][]byte
		itemType v1alpha1.DeployItemType
		want     string
		wantErr  string
	}{
		"only one":   {reason: "there is nothing to choose", schemas: one, want: `{"a":1}`},
		"chosen":     {reason: "the type says which", schemas: two, itemType: "example.org/b", want: `{"b":1}`},
		"not chosen": {reason: "the types are named", schemas: two, wantErr: `["example.org/a" "example.org/b"]`},
		"unknown":    {reason: "the types are named", schemas: one, itemType: "example.org/c", wantErr: `no schema for "example.org/c", but for ["example.org/a"]`},
		"none":       {reason: "a plugin need not have any"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := schemaOf(&conformance.Info{Name: "p", ProviderConfigSchemas: c.schemas}, c.itemType)
			if string(got) != c.want || (err != nil) != (c.wantErr != "") {
				t.Fatalf("%s: found %q, %v", c.reason, got, err)
			}
			if err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%s: expected %q in %q", c.reason, c.wantErr, err)
			}
		})
	}
}
