package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The provider configurations of Landscaper's deployers.
const (
	ofManifestsOld = "manifest.deployer.landscaper.gardener.cloud/v1alpha1"
	ofHelm         = "helm.deployer.landscaper.gardener.cloud/v1alpha1"
)

// differences returns the uses of an item that work differently here than with Landscaper's deployers, and that no
// comparison with the target shows. There are none of an unreadable configuration: the comparison reports that.
func differences(item *v1alpha1.DeployItem) []string {
	var config struct {
		APIVersion          string
		ContinuousReconcile map[string]any

		// Those of manifests.
		Exports                    map[string]any
		DeletionGroups             []any
		DeletionGroupsDuringUpdate []any

		// Those of charts.
		HelmDeployment       *bool
		HelmDeploymentConfig map[string]map[string]any
		CreateNamespace      bool
	}
	if item.Spec.Config == nil || json.Unmarshal(item.Spec.Config.Raw, &config) != nil {
		return nil
	}
	var found []string
	if len(config.ContinuousReconcile) > 0 {
		found = append(found, "continuousReconcile: it starts jobs")
	}
	if config.APIVersion == ofManifestsOld {
		var counts []string
		for field, is := range map[string]bool{
			"exports": len(config.Exports) > 0, "deletionGroups": len(config.DeletionGroups) > 0,
			"deletionGroupsDuringUpdate": len(config.DeletionGroupsDuringUpdate) > 0,
		} {
			if is {
				counts = append(counts, field)
			}
		}
		if slices.Sort(counts); len(counts) > 0 {
			found = append(found, strings.Join(counts, ", ")+": also count in v1alpha1")
		}
	}
	if config.APIVersion != ofHelm {
		return found
	}
	if config.HelmDeployment != nil && !*config.HelmDeployment {
		if config.CreateNamespace {
			found = append(found, "createNamespace: the namespace is kept when the item is deleted")
		}
		return found
	}
	for _, operation := range []string{"install", "upgrade", "uninstall"} {
		if timeout, is := config.HelmDeploymentConfig[operation]["timeout"]; is {
			found = append(found, fmt.Sprintf("helmDeploymentConfig.%s.timeout: %v applies", operation, timeout))
		}
	}
	return found
}
