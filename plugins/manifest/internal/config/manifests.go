package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// form describes the places of fields in a document as it was written; the validation has it in its newest version.
type form struct {
	// bareManifests: the list of manifests holds the objects themselves, as in v1alpha1.
	bareManifests bool
}

func formOf(d *document) form {
	return form{bareManifests: d.APIVersion == v1alpha1.GroupVersion.String()}
}

func (f form) manifest(entry *field.Path) *field.Path {
	if f.bareManifests {
		return entry
	}
	return entry.Child("manifest")
}

// settings returns the path of the settings beside an object; nil if the form has none.
func (f form) settings(entry *field.Path) *field.Path {
	if f.bareManifests {
		return nil
	}
	return entry
}

func validateManifests(document *v1alpha2.ProviderConfiguration, written form) ([]desired.Manifest, field.ErrorList) {
	var all []desired.Manifest
	var problems field.ErrorList
	for i, m := range document.Manifests {
		path := field.NewPath("manifests").Index(i)
		parsed, p := validateManifest(m, document.UpdateStrategy, path, written)
		all, problems = append(all, parsed...), append(problems, p...)
	}
	return all, append(problems, findDuplicates(all)...)
}

// validateManifest returns the objects of one entry: several, if it is a list.
func validateManifest(
	m managedresource.Manifest, strategy managedresource.UpdateStrategy, path *field.Path, written form,
) ([]desired.Manifest, field.ErrorList) {
	problems := providerconfig.ValidateChoice(m.Policy, managedresource.Policies(), path.Child("policy"))
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
