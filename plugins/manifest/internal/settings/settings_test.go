package settings_test

import (
	"reflect"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/manifest/internal/settings"
	"github.com/pergola-deploy/pergola/test/configtest"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	configtest.Suite{
		Files: "testdata/*.yaml", Schema: configtest.NewSchema(settings.Schema),
		Type: reflect.TypeFor[settings.Settings](), Read: configtest.Load(settings.Load),
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
