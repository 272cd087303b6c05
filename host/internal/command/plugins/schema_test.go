package plugins

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
	for reason, tc := range map[string]struct {
		schemas  map[v1alpha1.DeployItemType][]byte
		itemType v1alpha1.DeployItemType
		want     string // or a part of the error
	}{
		"the only one":                   {one, "", `{"a":1}`},
		"the one of the type":            {two, "example.org/b", `{"b":1}`},
		"the types are named":            {two, "", `["example.org/a" "example.org/b"]`},
		"there is no such type":          {one, "example.org/c", `no schema for "example.org/c", but for ["example.org/a"]`},
		"a plugin need not have schemas": {nil, "", ""},
	} {
		got, err := schemaOf(&conformance.Info{Name: "p", ProviderConfigSchemas: tc.schemas}, tc.itemType)
		if text := string(got); err == nil && text != tc.want || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: expected %q, but found %q, %v", reason, tc.want, text, err)
		}
	}
}
