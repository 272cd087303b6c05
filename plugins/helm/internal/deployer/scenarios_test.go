package deployer_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest/scenarios"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

func TestScenarios(t *testing.T) {
	t.Parallel()
	for mode, fields := range map[string]object{scenarios.Release: {}, scenarios.Objects: withoutRelease} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dirs := []string{scenarios.Contract, "testdata/scenarios"}
			if mode == scenarios.Release {
				dirs = append(dirs, "testdata/release")
			}
			scenarios.Run(t, scenarios.Mode{
				Name: mode, Type: v1alpha1.Type, Host: hostOptions(clocktesting.NewFakePassiveClock(time.Now()), &orderLog{}),
				Configuration: func(namespace string, objects []*unstructured.Unstructured) object {
					var documents []string
					for _, o := range objects {
						document, err := yaml.Marshal(o.Object)
						if err != nil {
							t.Fatal(err)
						}
						documents = append(documents, string(document))
					}
					c := object{
						"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ProviderConfigurationKind,
						"name": "shop", "namespace": namespace,
						"chart": chart("plain", charts.Without("templates/greeting.yaml"), charts.Without("templates/settings.yaml"),
							charts.File("templates/objects.yaml", strings.Join(documents, "---\n"))),
					}
					maps.Copy(c, fields)
					return c
				},
			}, dirs...)
		})
	}
}
