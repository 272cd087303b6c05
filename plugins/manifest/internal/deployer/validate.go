package deployer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// validate returns a provider configuration as a config, or all its problems. written is the written form of the
// document.
func validate(document *v1alpha2.ProviderConfiguration, written form) (*config, field.ErrorList) {
	c := &config{}
	problems := job.ValidateChoice(
		document.UpdateStrategy, managedresource.UpdateStrategies(), field.NewPath("updateStrategy"))

	manifests, p := validateManifests(document, field.NewPath("manifests"), written)
	c.manifests, problems = manifests, append(problems, p...)

	rules, p := ignore.ParseRules(document.IgnoreDifferences, field.NewPath("ignoreDifferences"))
	problems = append(problems, p...)
	for n, m := range c.manifests {
		c.manifests[n].Ignored = rules.For(m.Object.GetKind(), m.Object.GetName())
	}

	checks, p := readiness.ParseChecks(document.ReadinessChecks, field.NewPath("readinessChecks"))
	c.checks, problems = checks, append(problems, p...)

	exports, p := export.Parse(document.Exports, written.exports())
	c.exports, problems = exports, append(problems, p...)

	p = job.ValidateSchedule(document.ContinuousReconcile, field.NewPath("continuousReconcile"))
	problems = append(problems, p...)

	// The deletion of the item reads these groups again; here a mistake in them is reported while there is time to
	// correct it.
	_, p = prune.ParseGroups(document.DeletionGroups, field.NewPath("deletionGroups"))
	problems = append(problems, p...)
	groups, p := prune.ParseGroups(document.DeletionGroupsDuringUpdate, field.NewPath("deletionGroupsDuringUpdate"))
	c.deletionDuringUpdate, problems = groups, append(problems, p...)
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

func validateManifests(
	document *v1alpha2.ProviderConfiguration, path *field.Path, written form,
) ([]desired.Manifest, field.ErrorList) {
	var all []desired.Manifest
	var problems field.ErrorList
	for i, m := range document.Manifests {
		parsed, p := validateManifest(m, document.UpdateStrategy, path.Index(i), written)
		all, problems = append(all, parsed...), append(problems, p...)
	}
	return all, append(problems, findDuplicates(all)...)
}

// validateManifest returns the objects of one entry: several, if it is a list.
func validateManifest(
	m managedresource.Manifest, strategy managedresource.UpdateStrategy, path *field.Path, written form,
) ([]desired.Manifest, field.ErrorList) {
	problems := job.ValidateChoice(m.Policy, managedresource.Policies(), path.Child("policy"))
	if m.Force && strategy != managedresource.UpdateStrategyApply {
		problems = append(problems, field.Forbidden(path.Child("force"),
			fmt.Sprintf("has a meaning only with updateStrategy %q", managedresource.UpdateStrategyApply)))
	}
	after, p := validatePatch(m.PatchAfterDeployment, path.Child("patchAfterDeployment"))
	problems = append(problems, p...)
	_, p = validatePatch(m.PatchBeforeDelete, path.Child("patchBeforeDelete"))
	problems = append(problems, p...)

	parsed, p := object.Parse(raw(m.Manifest), written.manifest(path))
	manifests := make([]desired.Manifest, 0, len(parsed))
	for _, o := range parsed {
		manifests = append(manifests, desired.Manifest{
			Manifest:             o,
			Settings:             written.settings(path),
			Policy:               m.Policy,
			Strategy:             strategy,
			AnnotateBeforeCreate: m.AnnotateBeforeCreate,
			AnnotateBeforeDelete: m.AnnotateBeforeDelete,
			PatchAfterDeployment: after,
			PatchBeforeDelete:    m.PatchBeforeDelete,
			Recreate:             m.Recreate,
			Listed:               o.Path.String() != written.manifest(path).String(),
			Force:                m.Force,
		})
	}
	return manifests, append(problems, p...)
}

// validatePatch reads the patch of an object; nil without one.
func validatePatch(extension *runtime.RawExtension, path *field.Path) (map[string]any, field.ErrorList) {
	if extension == nil || len(extension.Raw) == 0 || string(extension.Raw) == "null" {
		return nil, nil
	}
	var patch map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(extension.Raw, &patch); err != nil {
		const want = "expected an object with the fields to change"
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, want)}
	}
	return patch, nil
}

func raw(extension *runtime.RawExtension) []byte {
	if extension == nil {
		return nil
	}
	return extension.Raw
}

// findDuplicates compares names as they are written. Names equal only on the target, such as with and without the
// default namespace, are found once the scope of their kinds is known.
func findDuplicates(manifests []desired.Manifest) field.ErrorList {
	var problems field.ErrorList
	paths := map[object.Key]*field.Path{}
	for _, m := range manifests {
		key := object.KeyOf(m.Object)
		if first, ok := paths[key]; ok {
			duplicate := fmt.Sprintf("%s is already in %s", key, first)
			problems = append(problems, field.Invalid(m.Path, field.OmitValueType{}, duplicate))
			continue
		}
		paths[key] = m.Path
	}
	return problems
}
