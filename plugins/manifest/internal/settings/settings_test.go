package settings_test

import (
	"reflect"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/manifest/internal/settings"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/configtest"
)

var schema = configtest.NewSchema(settings.Schema)

func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	schema.MustHaveFields(t, reflect.TypeFor[settings.Settings]())
}

func TestSettings(t *testing.T) {
	t.Parallel()
	configtest.Suite{
		Files: "testdata/*.yaml", Schema: schema,
		Read: func(t *testing.T, document []byte, _ bool) []sdk.Problem {
			t.Helper()
			_, problems := settings.Load(document)
			return problems
		},
	}.Run(t)
}

func TestStrict(t *testing.T) {
	t.Parallel()
	const head = `{"apiVersion":"manifest.pergola.dev/v1alpha1","kind":"ManifestConfiguration"`
	for document, want := range map[string]bool{
		"": true, head + "}": true, head + `,"strict":null}`: true, head + `,"strict":true}`: true,
		head + `,"strict":false}`: false,
	} {
		if s, problems := settings.Load([]byte(document)); s.Strict != want || len(problems) > 0 {
			t.Errorf("%s: expected strict %t, but found %t, problems %v", document, want, s.Strict, problems)
		}
	}
}
