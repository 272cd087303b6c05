package config

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/objectconfig"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// Deletion is the part of a provider configuration about the end of its deploy item.
type Deletion struct {
	// HelmDeployment asks for a release. The provider status has the real one, if any.
	HelmDeployment bool
	// Release is the configured release; the zero Release for an invalid one.
	Release helm.Release
	// Uninstall are the options for a release. A Timeout of zero stands for that of the deploy item.
	Uninstall helm.Options
	// Groups are the steps for objects without a release.
	Groups prune.Groups
}

// ReadDeletion reads the fields for a deletion, and nothing else of the provider configuration: neither a mistake
// elsewhere nor a missing configuration must prevent a deletion. A mistake in these fields does; otherwise too much
// would be deleted, or in the wrong way. With strict an unknown field of the deletion groups is a mistake, too.
func ReadDeletion(req *sdk.Request, strict bool) (*Deletion, error) {
	groups, err := objectconfig.ReadDeletionGroups(req, strict)
	if err != nil {
		return nil, err
	}
	d := &Deletion{HelmDeployment: true, Groups: groups}
	config := req.DeployItem.Spec.Config
	if config == nil || !json.Valid(config.Raw) {
		return d, nil
	}
	var fields struct {
		Name                 json.RawMessage `json:"name"`
		Namespace            json.RawMessage `json:"namespace"`
		HelmDeployment       *bool           `json:"helmDeployment"`
		HelmDeploymentConfig struct {
			Uninstall *v1alpha1.HelmUninstallConfiguration `json:"uninstall"`
		} `json:"helmDeploymentConfig"`
	}
	// All other fields are unknown here.
	if _, err := req.DecodeConfigLeniently(&fields); err != nil {
		return nil, err
	}
	if fields.HelmDeployment != nil {
		d.HelmDeployment = *fields.HelmDeployment
	}
	if r := (helm.Release{Namespace: text(fields.Namespace), Name: text(fields.Name)}); len(validateRelease(r)) == 0 {
		d.Release = r
	}
	var problems field.ErrorList
	d.Uninstall, problems = readUninstall(fields.HelmDeploymentConfig.Uninstall, operationsOf(config.Raw).Uninstall,
		field.NewPath("helmDeploymentConfig", "uninstall"))
	if len(problems) > 0 {
		return nil, sdk.ConfigurationError(sdk.ReasonConfigProblems, "spec.config: %s", providerconfig.Describe(problems))
	}
	return d, nil
}

// text returns a JSON text; empty for anything else.
func text(document json.RawMessage) string {
	var found string
	if len(document) == 0 || json.Unmarshal(document, &found) != nil {
		return ""
	}
	return found
}
