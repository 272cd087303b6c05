package docs

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

const (
	mockPage = "docs/deploy-items.md"
	mockItem = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DeployItem\nmetadata:\n  name: pretended\n"
)

// TestMockPage: the mock deployer does with the item of its page what the page says.
func TestMockPage(t *testing.T) {
	t.Parallel()
	item := &landscaper.DeployItem{}
	if err := yaml.UnmarshalStrict([]byte(source(t, mockPage, "yaml", mockItem)), item); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "mock")
	compile(t, binary, "./plugins/mock")
	plugin := sdktest.Start(t, binary)

	result := plugin.Reconcile(patient(t), sdktest.Call{DeployItem: item})
	if result.Succeeded == nil {
		t.Fatalf("expected success, but found %s", result)
	}
	if diff := cmp.Diff(map[string]any{"endpoint": "https://mock.example.org"}, result.Succeeded.Exports); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
}

// TestMockPageHasTheFields: each field of a provider configuration is in the table.
func TestMockPageHasTheFields(t *testing.T) {
	t.Parallel()
	fields := firstColumn(t, mockPage, "field")
	var want []string
	for field := range reflect.TypeFor[v1alpha1.ProviderConfiguration]().Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("fields (-type +page):\n%s", diff)
	}
}
