package deployer

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// validate returns what a provider configuration asks for, or everything that is wrong with it. What the document may say but
// this version does not do is wrong, too: it must not be passed over in silence. written is how the document was written.
func validate(document *v1alpha2.ProviderConfiguration, written form) (*config, field.ErrorList) {
	c := &config{checkReadiness: !document.ReadinessChecks.DisableDefault}
	problems := validateStrategy(document.UpdateStrategy, field.NewPath("updateStrategy"))
	problems = append(problems, validateReadiness(document.ReadinessChecks, field.NewPath("readinessChecks"))...)

	manifests, p := validateManifests(document.Manifests, field.NewPath("manifests"), written)
	c.manifests, problems = manifests, append(problems, p...)

	exports, p := validateExports(document.Exports, written.exports())
	c.exports, problems = exports, append(problems, p...)

	problems = append(problems, validateSchedule(document.ContinuousReconcile, field.NewPath("continuousReconcile"))...)
	problems = append(problems, refuse(len(document.DeletionGroups) > 0, field.NewPath("deletionGroups"))...)
	problems = append(problems, refuse(len(document.DeletionGroupsDuringUpdate) > 0, field.NewPath("deletionGroupsDuringUpdate"))...)
	if len(problems) > 0 {
		return nil, problems
	}
	return c, nil
}

// refuse reports a field that is used although this version does nothing with it.
func refuse(used bool, path *field.Path) field.ErrorList {
	if !used {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "this version of the deployer does not support it")}
}

func validateStrategy(strategy managedresource.UpdateStrategy, path *field.Path) field.ErrorList {
	switch {
	case strategy == "" || strategy == managedresource.UpdateStrategyUpdate:
		return nil
	case slices.Contains(managedresource.UpdateStrategies(), strategy):
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("this version of the deployer does not support %q, only %q",
			strategy, managedresource.UpdateStrategyUpdate))}
	default:
		return field.ErrorList{field.NotSupported(path, strategy, managedresource.UpdateStrategies())}
	}
}

func validatePolicy(policy managedresource.Policy, path *field.Path) field.ErrorList {
	switch {
	case policy == "" || policy == managedresource.PolicyManage:
		return nil
	case slices.Contains(managedresource.Policies(), policy):
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("this version of the deployer does not support %q, only %q",
			policy, managedresource.PolicyManage))}
	default:
		return field.ErrorList{field.NotSupported(path, policy, managedresource.Policies())}
	}
}

func validateReadiness(checks managedresource.ReadinessCheckConfiguration, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, custom := range checks.Custom {
		problems = append(problems, refuse(!custom.Disabled, path.Child("custom").Index(i))...)
	}
	return problems
}

func validateManifests(manifests []managedresource.Manifest, path *field.Path, written form) ([]object.Manifest, field.ErrorList) {
	var all []object.Manifest
	var problems field.ErrorList
	for i, m := range manifests {
		at := path.Index(i)
		problems = append(problems, validatePolicy(m.Policy, at.Child("policy"))...)
		problems = append(problems, refuse(len(m.AnnotateBeforeCreate) > 0, at.Child("annotateBeforeCreate"))...)
		problems = append(problems, refuse(len(m.AnnotateBeforeDelete) > 0, at.Child("annotateBeforeDelete"))...)
		problems = append(problems, refuse(m.PatchAfterDeployment != nil, at.Child("patchAfterDeployment"))...)
		problems = append(problems, refuse(m.PatchBeforeDelete != nil, at.Child("patchBeforeDelete"))...)
		parsed, p := object.Parse(raw(m.Manifest), written.manifest(at))
		all, problems = append(all, parsed...), append(problems, p...)
	}
	return all, append(problems, findDuplicates(all)...)
}

func raw(extension *runtime.RawExtension) []byte {
	if extension == nil {
		return nil
	}
	return extension.Raw
}

// findDuplicates compares names as they are written. Names that turn out to be the same only on the target, such as those with
// and without the default namespace, are found when the scope of their kinds is known.
func findDuplicates(manifests []object.Manifest) field.ErrorList {
	var problems field.ErrorList
	paths := map[object.Key]*field.Path{}
	for _, m := range manifests {
		key := object.KeyOf(m.Object)
		if first, ok := paths[key]; ok {
			problems = append(problems, field.Invalid(m.Path, field.OmitValueType{}, fmt.Sprintf("%s is already in %s", key, first)))
			continue
		}
		paths[key] = m.Path
	}
	return problems
}

func validateExports(exports *managedresource.Exports, path *field.Path) ([]export.Value, field.ErrorList) {
	if exports == nil {
		return nil, nil
	}
	var values []export.Value
	var problems field.ErrorList
	if exports.DefaultTimeout != "" {
		if _, _, err := exports.DefaultTimeout.Parse(); err != nil {
			problems = append(problems, field.Invalid(field.NewPath("exports", "defaultTimeout"), field.OmitValueType{}, err.Error()))
		}
	}
	for i, e := range exports.Exports {
		value, p := validateExport(e, path.Index(i))
		for j, earlier := range exports.Exports[:i] {
			if e.Key != "" && earlier.Key != "" && export.Overlap(earlier.Key, e.Key) {
				p = append(p, field.Invalid(path.Index(i).Child("key"), e.Key,
					fmt.Sprintf("cannot be exported beside %q of %s", earlier.Key, path.Index(j))))
			}
		}
		values, problems = append(values, value), append(problems, p...)
	}
	return values, problems
}

func validateExport(e managedresource.Export, path *field.Path) (export.Value, field.ErrorList) {
	var problems field.ErrorList
	switch {
	case e.Key == "":
		problems = append(problems, field.Required(path.Child("key"), ""))
	case slices.Contains(strings.Split(e.Key, "."), ""):
		problems = append(problems, field.Invalid(path.Child("key"), e.Key, "expected names separated by single dots"))
	}
	jsonPath, err := export.ParsePath(e.JSONPath)
	if err != nil {
		problems = append(problems, field.Invalid(path.Child("jsonPath"), e.JSONPath, err.Error()))
	}
	problems = append(problems, refuse(e.FromObjectReference != nil, path.Child("fromObjectRef"))...)
	problems = append(problems, refuse(e.TargetName != nil, path.Child("targetName"))...)
	if e.FromResource == nil {
		return export.Value{}, append(problems, field.Required(path.Child("fromResource"), "it names the object that the value is read from"))
	}
	from := path.Child("fromResource")
	for _, part := range []struct{ name, value string }{
		{"apiVersion", e.FromResource.APIVersion}, {"kind", e.FromResource.Kind}, {"name", e.FromResource.Name},
	} {
		if part.value == "" {
			problems = append(problems, field.Required(from.Child(part.name), ""))
		}
	}
	return export.Value{Key: e.Key, Path: jsonPath, From: *e.FromResource}, problems
}
