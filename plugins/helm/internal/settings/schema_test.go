package settings_test

import (
	"reflect"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/internal/schematest"
)

var schema = schematest.New(settings.Schema)

func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	schema.MustHaveFields(t, reflect.TypeFor[settings.HelmConfiguration]())
}
