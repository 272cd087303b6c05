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
	for _, tc := range []struct {
		reason   string
		schemas  map[v1alpha1.DeployItemType][]byte
		itemType v1alpha1.DeployItemType
		want     string // or a part of the error
	}{
		{"there is nothing to choose", one, "", `{"a":1}`},
		{"the type says which", two, "example.org/b", `{"b":1}`},
		{"the types are named", two, "", `["example.org/a" "example.org/b"]`},
		{"there is no such type", one, "example.org/c", `no schema for "example.org/c", but for ["example.org/a"]`},
		{"a plugin need not have any", nil, "", ""},
	} {
		got, err := schemaOf(&conformance.Info{Name: "p", ProviderConfigSchemas: tc.schemas}, tc.itemType)
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.Contains(string(got), tc.want) || err == nil && string(got) != tc.want {
			t.Errorf("%s: expected %q, but found %q, %v", tc.reason, tc.want, got, err)
		}
	}
}
