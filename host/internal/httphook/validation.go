package httphook

import (
	"errors"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Validate returns all that is wrong with a registration's spec, as far as the spec alone tells. The CRD's schema refuses the same; but
// an object may be older than the schema, and the CRD may be another one's. The paths begin with spec.
func Validate(spec *v1alpha1.DeployerRegistrationSpec) field.ErrorList {
	path := field.NewPath("spec")
	var all field.ErrorList
	if len(spec.Types) == 0 {
		all = append(all, field.Required(path.Child("types"), "name at least one type of deploy items"))
	}
	if spec.Hook != nil {
		all = append(all, validateHook(spec.Hook, path.Child("hook"))...)
	}
	return all
}

func validateHook(hook *v1alpha1.Hook, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if hook.Version != v1alpha1.HookVersionV1 {
		all = append(all, field.NotSupported(path.Child("version"), hook.Version, []v1alpha1.HookVersion{v1alpha1.HookVersionV1}))
	}
	all = append(all, validateAddress(hook, path.Child("address"))...)
	if _, err := ParseTimeout(hook.Timeout); err != nil {
		all = append(all, field.Invalid(path.Child("timeout"), hook.Timeout, err.Error()))
	}
	known := []v1alpha1.HookCapability{v1alpha1.HookPreReconcile, v1alpha1.HookFinalize}
	for i, capability := range hook.Capabilities {
		if !slices.Contains(known, capability) {
			all = append(all, field.NotSupported(path.Child("capabilities").Index(i), capability, known))
		}
	}
	return append(all, validateConditions(hook.ConditionsFromHook, path.Child("conditionsFromHook"))...)
}

// validateAddress checks the address, and that credentials are sent to none that is known to be unencrypted.
func validateAddress(hook *v1alpha1.Hook, path *field.Path) field.ErrorList {
	uri, err := parseURI(hook.Address)
	var wrong *AddressError
	if errors.As(err, &wrong) {
		if wrong.Field == "" {
			return field.ErrorList{field.Required(path, wrong.Message)}
		}
		// The value is left out: it may be a password that should not be there.
		return field.ErrorList{field.Invalid(path.Child(wrong.Field), field.OmitValueType{}, wrong.Message)}
	}
	ref := hook.Address.Ref
	var all field.ErrorList
	if ref != nil && isService(*ref) && ref.Namespace == "" {
		all = append(all, field.Required(path.Child("ref", "namespace"), "a Service needs a namespace"))
	}
	scheme := ""
	if uri != nil {
		scheme = uri.Scheme
	}
	unencrypted := scheme == schemeHTTP || scheme == "" && ref != nil && isService(*ref)
	if unencrypted && (hook.Auth != nil || hook.TLS != nil) {
		all = append(all, field.Invalid(path, field.OmitValueType{}, "auth and tls need an address of scheme https; a Service has it with uri: https://"))
	}
	return all
}

// conditionPattern is that of the CRD.
var conditionPattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

func validateConditions(conditions []v1alpha1.HookCondition, path *field.Path) field.ErrorList {
	const most = 16
	var all field.ErrorList
	if len(conditions) > most {
		all = append(all, field.TooMany(path, len(conditions), most))
	}
	for i, condition := range conditions {
		at := path.Index(i).Child("type")
		switch {
		case !conditionPattern.MatchString(string(condition.Type)):
			all = append(all, field.Invalid(at, condition.Type, "expected a name in CamelCase, of at most 63 letters and digits"))
		case slices.Contains(sdk.HostConditions(), condition.Type):
			all = append(all, field.Invalid(at, condition.Type, "the host sets this condition itself; choose another name"))
		case slices.Contains(conditions[:i], condition):
			all = append(all, field.Duplicate(at, condition.Type))
		}
	}
	return all
}

// quoted quotes a text and shortens it if it is unusually long.
func quoted(text string) string {
	const longest = 64
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "..."
	}
	return strconv.Quote(text)
}
