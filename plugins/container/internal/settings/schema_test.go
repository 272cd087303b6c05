package settings_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/internal/schematest"
)

var schema = schematest.New(settings.Schema)

func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	schema.MustHaveFields(t, reflect.TypeFor[settings.ContainerConfiguration](), reflect.TypeFor[corev1.ResourceRequirements]())
}
