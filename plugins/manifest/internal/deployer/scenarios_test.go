package deployer_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest/scenarios"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

func TestScenarios(t *testing.T) {
	t.Parallel()
	scenarios.Run(t, scenarios.Mode{
		Name: scenarios.Manifest, Type: v1alpha2.Type, Host: hostOptions(direct),
		Configuration: func(namespace string, objects []*unstructured.Unstructured) object {
			var manifests []object
			for _, o := range objects {
				if o.GetNamespace() == "" {
					o.SetNamespace(namespace)
				}
				manifests = append(manifests, o.Object)
			}
			return config(manifests...)
		},
	}, scenarios.Contract, "testdata/scenarios")
}
