package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// ToV1alpha2 returns the same configuration in its newer form. Nothing is dropped; the result shares memory with c.
func (c *ProviderConfiguration) ToV1alpha2() *v1alpha2.ProviderConfiguration {
	out := &v1alpha2.ProviderConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha2.GroupVersion.String(),
			Kind:       v1alpha2.ProviderConfigurationKind,
		},
		UpdateStrategy:             c.UpdateStrategy,
		IgnoreDifferences:          c.IgnoreDifferences,
		ReadinessChecks:            c.ReadinessChecks,
		Exports:                    c.Exports,
		DeletionGroups:             c.DeletionGroups,
		DeletionGroupsDuringUpdate: c.DeletionGroupsDuringUpdate,
	}
	for _, manifest := range c.Manifests {
		out.Manifests = append(out.Manifests, managedresource.Manifest{
			Policy:   managedresource.PolicyManage,
			Manifest: manifest,
		})
	}
	return out
}
