package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

var (
	// installOptions and uninstallOptions are the names of the known options.
	installOptions   = []string{"atomic", "force", "skipSchemaValidation", "takeOwnership", "timeout", "wait"}
	uninstallOptions = []string{"disableHooks", "timeout", "wait"}
)

// operations are the options of the operations on a release as they are written.
type operations struct {
	Install   json.RawMessage `json:"install"`
	Upgrade   json.RawMessage `json:"upgrade"`
	Uninstall json.RawMessage `json:"uninstall"`
}

func operationsOf(written []byte) operations {
	var document struct {
		HelmDeploymentConfig operations `json:"helmDeploymentConfig"`
	}
	if kjson.UnmarshalCaseSensitivePreserveInts(written, &document) != nil {
		return operations{} // the decoder has reported an unreadable document
	}
	return document.HelmDeploymentConfig
}

// setOptions sets the options of the operations on the release.
func (c *Config) setOptions(document *v1alpha1.HelmDeploymentConfiguration, written operations) field.ErrorList {
	if document == nil {
		return nil
	}
	path := field.NewPath("helmDeploymentConfig")
	var problems, p field.ErrorList
	c.TakeOwnership = document.TakeOwnership
	c.Install, problems = readInstall(document.Install, written.Install, path.Child("install"))
	c.Upgrade, p = readInstall(document.Upgrade, written.Upgrade, path.Child("upgrade"))
	problems = append(problems, p...)
	c.Uninstall, p = readUninstall(document.Uninstall, written.Uninstall, path.Child("uninstall"))
	return append(problems, p...)
}

func readInstall(
	c *v1alpha1.HelmInstallConfiguration, written json.RawMessage, path *field.Path,
) (helm.Options, field.ErrorList) {
	if c == nil {
		return helm.Options{}, nil
	}
	timeout, problems := parseTimeout(c.Timeout, path.Child("timeout"))
	return helm.Options{
		Atomic: c.Atomic, Force: c.Force, SkipSchemaValidation: c.SkipSchemaValidation, TakeOwnership: c.TakeOwnership,
		Wait: c.Wait || c.Atomic, Timeout: timeout,
	}, append(problems, checkNames(written, installOptions, path)...)
}

func readUninstall(
	c *v1alpha1.HelmUninstallConfiguration, written json.RawMessage, path *field.Path,
) (helm.Options, field.ErrorList) {
	if c == nil {
		return helm.Options{}, nil
	}
	timeout, problems := parseTimeout(c.Timeout, path.Child("timeout"))
	problems = append(problems, checkNames(written, uninstallOptions, path)...)
	return helm.Options{DisableHooks: c.DisableHooks, Wait: c.Wait, Timeout: timeout}, problems
}

// checkNames reports unknown options, even with a lenient reader, as Landscaper does: they would have no effect.
func checkNames(written json.RawMessage, known []string, path *field.Path) field.ErrorList {
	var found map[string]json.RawMessage
	if len(written) == 0 || json.Unmarshal(written, &found) != nil {
		return nil // see operationsOf
	}
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(known, name) {
			problems = append(problems, field.Forbidden(path.Child(name),
				"there is no such option; expected one of "+strings.Join(known, ", ")))
		}
	}
	return problems
}

// parseTimeout returns zero for none: then the timeout of the deploy item bounds the operation.
func parseTimeout(timeout *landscaper.Duration, path *field.Path) (time.Duration, field.ErrorList) {
	if timeout == nil || *timeout == "" {
		return 0, nil
	}
	span, _, err := timeout.Parse()
	if err != nil {
		return 0, field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	return span, nil
}

// ignored returns the set fields without an effect.
func (c *Config) ignored(document *v1alpha1.ProviderConfiguration) []string {
	var fields []string
	add := func(is bool, path ...string) {
		if is {
			fields = append(fields, strings.Join(path, "."))
		}
	}
	if c.HelmDeployment {
		add(c.UpdateStrategy != "" && c.UpdateStrategy != managedresource.UpdateStrategyUpdate, "updateStrategy")
		add(len(document.DeletionGroups) > 0, "deletionGroups")
		add(len(document.DeletionGroupsDuringUpdate) > 0, "deletionGroupsDuringUpdate")
		return fields
	}
	add(c.TakeOwnership, "helmDeploymentConfig", "takeOwnership")
	for _, operation := range []struct {
		name    string
		options helm.Options
	}{{"install", c.Install}, {"upgrade", c.Upgrade}, {"uninstall", c.Uninstall}} {
		o := operation.options
		add(o.Atomic, "helmDeploymentConfig", operation.name, "atomic")
		add(o.DisableHooks, "helmDeploymentConfig", operation.name, "disableHooks")
		add(o.Force, "helmDeploymentConfig", operation.name, "force")
		// The one of install counts for rendering; the same option in upgrade is no mistake then.
		add(o.SkipSchemaValidation && !c.Install.SkipSchemaValidation,
			"helmDeploymentConfig", operation.name, "skipSchemaValidation")
		add(o.TakeOwnership, "helmDeploymentConfig", operation.name, "takeOwnership")
		add(o.Wait && !o.Atomic, "helmDeploymentConfig", operation.name, "wait")
		add(o.Timeout > 0, "helmDeploymentConfig", operation.name, "timeout")
	}
	return fields
}
