package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// maxContentSize is how many bytes the content of a Target may have.
const maxContentSize = 1 << 20

// contentField is the name, in errors, of the content as a whole.
const contentField = "content"

// checkSpec checks the place of the content in the spec.
func checkSpec(spec *v1alpha1.TargetSpec) []problem {
	inline := hasConfiguration(spec)
	switch {
	case inline && spec.SecretRef != nil:
		return []problem{invalid("spec", "both config and secretRef are set; remove one of them")}
	case spec.SecretRef != nil && spec.SecretRef.Name == "":
		return []problem{invalid("spec.secretRef.name", "is empty; name a secret")}
	case !inline && spec.SecretRef == nil && spec.Type == v1alpha1.KubernetesClusterTargetType:
		return []problem{invalid("spec",
			"neither config nor secretRef is set; a target of type %q needs a kubeconfig", spec.Type)}
	default:
		return nil
	}
}

func hasConfiguration(spec *v1alpha1.TargetSpec) bool {
	return spec.Configuration != nil && len(spec.Configuration.Raw) > 0
}

// rawContent returns the content as written by the user: the inline configuration, or the data of the secret under the
// key, or without a key all data of the secret as one JSON object. data is nil without a secretRef.
func rawContent(spec *v1alpha1.TargetSpec, data *corev1.Secret) ([]byte, []problem) {
	if data == nil {
		if !hasConfiguration(spec) {
			return nil, nil
		}
		return spec.Configuration.Raw, nil
	}
	key := spec.SecretRef.Key
	if key == "" {
		return wholeSecret(data.Data), nil
	}
	raw, ok := data.Data[key]
	if !ok {
		return nil, []problem{{
			reason: ReasonSecretKeyNotFound, field: "spec.secretRef.key",
			message: fmt.Sprintf("Secret %q has no key %q; add it, or correct the Target",
				client.ObjectKeyFromObject(data), key),
		}}
	}
	return raw, nil
}

// wholeSecret returns the data of a secret as a JSON object. A value of valid JSON or YAML is decoded, as in
// Landscaper; any other, and any ambiguous one, stays a text.
func wholeSecret(data map[string][]byte) []byte {
	object := make(map[string]any, len(data))
	for key, text := range data {
		object[key] = string(text)
		if value, problems := parse(text, ""); len(problems) == 0 {
			object[key] = value
		}
	}
	return []byte(encode(object))
}

// sanitize returns the content of a Target of this type for a plugin; or a login, for a kubeconfig made later; or
// problems. onlyAccount is Options.ServiceAccount.
func sanitize(targetType v1alpha1.TargetType, raw []byte, onlyAccount string) (string, *login, []problem) {
	if len(raw) > maxContentSize {
		return "", nil, []problem{invalid(contentField, "has %d bytes; at most %d are allowed", len(raw), maxContentSize)}
	}
	if targetType == v1alpha1.KubernetesClusterTargetType {
		return kubernetesContent(raw, onlyAccount)
	}
	if !holdsKubeconfig(raw) {
		return string(raw), nil, nil
	}
	text, problems := foreignContent(raw)
	return text, nil, problems
}

// kubernetesContent sanitizes the content of a Kubernetes cluster. The field kubeconfig counts before all others, as in
// Landscaper; between the others there is no order.
func kubernetesContent(raw []byte, onlyAccount string) (string, *login, []problem) {
	root, problems := parseObject(raw, contentField)
	if len(problems) > 0 {
		return "", nil, problems
	}
	if field := get(root, "kubeconfig"); !isEmpty(field) {
		text, problems := fieldContent(field, nil)
		return text, nil, problems
	}
	bare, oidc, self := isKubeconfig(root), get(root, oidcField), get(root, selfField)
	switch {
	case oidc != nil && self != nil:
		return "", nil, []problem{invalid(contentField, "has both oidcConfig and selfConfig; remove one of them")}
	case bare && (oidc != nil || self != nil):
		return "", nil, []problem{invalid(contentField,
			"is a kubeconfig and has oidcConfig or selfConfig too; remove one of them")}
	case bare:
		text, problems := fieldContent(root, nil)
		return text, nil, problems
	case oidc != nil:
		login, problems := readLogin(oidc, oidcField, onlyAccount)
		return "", login, problems
	case self != nil:
		login, problems := readLogin(self, selfField, onlyAccount)
		return "", login, problems
	default:
		return "", nil, []problem{invalid(contentField, "holds no kubeconfig; "+
			"put one into the field kubeconfig, or use oidcConfig or selfConfig")}
	}
}

// foreignContent sanitizes content with a kubeconfig in a Target of another type than a Kubernetes cluster.
func foreignContent(raw []byte) (string, []problem) {
	root, problems := parseObject(raw, contentField)
	if len(problems) > 0 {
		return "", problems
	}
	field := get(root, "kubeconfig")
	if isEmpty(field) && isKubeconfig(root) {
		return fieldContent(root, nil)
	}
	maps.DeleteFunc(root, func(key string, _ any) bool { return fold(key) == "kubeconfig" })
	if path, found := find(root, contentField, textDepth); found {
		return "", []problem{forbidden(path,
			"a kubeconfig is allowed only in the field kubeconfig, or as the content itself; move it")}
	}
	return fieldContent(field, root)
}

// fieldContent returns content with a kubeconfig, given as an object or as a text, and with the fields beside it.
func fieldContent(kubeconfig any, beside map[string]any) (string, []problem) {
	object, problems := asObject(kubeconfig, "kubeconfig")
	if text, isText := kubeconfig.(string); isText {
		object, problems = parseObject([]byte(text), "kubeconfig")
	}
	if len(problems) > 0 {
		return "", problems
	}
	text, problems := rebuild(object)
	if len(problems) > 0 {
		return "", problems
	}
	whole := map[string]any{"kubeconfig": text}
	maps.Copy(whole, beside)
	return encode(whole), nil
}

// encode writes a value of the types of encoding/json.
func encode(object map[string]any) string {
	// The values came from JSON or YAML, and JSON can hold them.
	text, _ := json.Marshal(object)
	return string(text)
}

// textDepth is how many texts inside each other are looked into.
const textDepth = 2

// escapes are the escapes of JSON and YAML within a word.
var escapes = regexp.MustCompile(`\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\r?\n[ \t]*)`)

func unescape(text string) string {
	return escapes.ReplaceAllStringFunc(text, func(escape string) string {
		code, err := strconv.ParseUint(escape[2:], 16, 32)
		// A line continues in the next one.
		if err != nil {
			return ""
		}
		return string(rune(code)) //nolint:gosec // a number of 32 bits at most; one that is no rune is in no word
	})
}

// holdsKubeconfig reports whether there is a kubeconfig anywhere in a text. In doubt there is; the package comment has
// the rules.
func holdsKubeconfig(text []byte) bool {
	return holds(string(text), textDepth)
}

func holds(text string, depth int) bool {
	value, problems := parse([]byte(text), "")
	if len(problems) == 0 {
		_, found := find(value, "", depth)
		return found
	}
	// A text in a text has its escapes escaped.
	for range textDepth + 1 {
		text = unescape(text)
		words := fold(text)
		if strings.Contains(words, "kubeconfig") || strings.Contains(words, "clusters") && strings.Contains(words, "users") {
			return true
		}
	}
	return false
}

// find returns the path of a kubeconfig in a value, also in JSON and YAML within texts, texts levels deep.
func find(value any, path string, texts int) (string, bool) {
	switch typed := value.(type) {
	case string:
		// Without a colon it is no object, neither in JSON nor in YAML.
		return path, texts > 0 && strings.Contains(typed, ":") && holds(typed, texts-1)
	case []any:
		for i, inner := range typed {
			if found, ok := find(inner, indexed(path, i), texts); ok {
				return found, true
			}
		}
	case map[string]any:
		if isKubeconfig(typed) {
			return path, true
		}
		for _, key := range slices.Sorted(maps.Keys(typed)) {
			inner := join(path, key)
			if fold(key) == "kubeconfig" && !isEmpty(typed[key]) {
				return inner, true
			}
			if found, ok := find(typed[key], inner, texts); ok {
				return found, true
			}
		}
	}
	return "", false
}

// isKubeconfig reports whether an object is meant to be a kubeconfig, from its kind or its fields.
func isKubeconfig(object map[string]any) bool {
	kind, _ := get(object, "kind").(string)
	return fold(kind) == "config" || get(object, "clusters") != nil && get(object, "users") != nil
}
