package target

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// MaxContentSize is how many bytes the content of a Target may have.
const MaxContentSize = 1 << 20

// contentField is the name, in errors, of the content as a whole.
const contentField = "content"

// checkSpec tells what is wrong with where the spec says that the content is.
func checkSpec(spec *v1alpha1.TargetSpec) []Problem {
	inline := hasConfiguration(spec)
	switch {
	case inline && spec.SecretRef != nil:
		return []Problem{invalid("spec", "both config and secretRef are set; remove one of them")}
	case spec.SecretRef != nil && spec.SecretRef.Name == "":
		return []Problem{invalid("spec.secretRef.name", "is empty; name a secret")}
	case !inline && spec.SecretRef == nil && spec.Type == v1alpha1.KubernetesClusterTargetType:
		return []Problem{invalid("spec", "neither config nor secretRef is set; a target of type %q needs a kubeconfig", spec.Type)}
	default:
		return nil
	}
}

func hasConfiguration(spec *v1alpha1.TargetSpec) bool {
	return spec.Configuration != nil && len(spec.Configuration.Raw) > 0
}

// rawContent returns the content as the user wrote it: the inline configuration, or the data of the secret under the key, or
// without a key all data of the secret as one JSON object. data is nil without a secretRef.
func rawContent(spec *v1alpha1.TargetSpec, data *secret) ([]byte, []Problem) {
	if data == nil {
		if !hasConfiguration(spec) {
			return nil, nil
		}
		return spec.Configuration.Raw, nil
	}
	key := spec.SecretRef.Key
	if key == "" {
		return wholeSecret(data.data)
	}
	raw, ok := data.data[key]
	if !ok {
		return nil, []Problem{{
			Reason: ReasonSecretKeyNotFound, Field: "spec.secretRef.key",
			Message: fmt.Sprintf("Secret %q has no key %q; add it, or correct the Target", data.version.NamespacedName, key),
		}}
	}
	return raw, nil
}

// wholeSecret returns the data of a secret as a JSON object. A value that is JSON or YAML becomes what it says, as in
// Landscaper; one that is not, or is not beyond doubt, stays the text that it is.
func wholeSecret(data map[string][]byte) ([]byte, []Problem) {
	object := make(map[string]any, len(data))
	for key, value := range data {
		object[key] = string(value)
		documents, err := parse(value)
		if err == nil && len(documents) == 1 && len(ambiguities(documents[0], "", 0)) == 0 {
			object[key] = plain(documents[0])
		}
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, []Problem{invalid(contentField, "the data of the secret cannot be written as one JSON object; name a key in spec.secretRef")}
	}
	return raw, nil
}

// sanitize returns what a plugin may see of the content of a Target of this type; or how to log in, in which case the plugin sees
// a kubeconfig made of that; or what is wrong. onlyAccount is as in WithServiceAccount.
func sanitize(targetType v1alpha1.TargetType, raw []byte, onlyAccount string) (string, *login, []Problem) {
	if len(raw) > MaxContentSize {
		return "", nil, []Problem{invalid(contentField, "has %d bytes; at most %d are allowed", len(raw), MaxContentSize)}
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
// Landscaper; between the others nobody guesses.
func kubernetesContent(raw []byte, onlyAccount string) (string, *login, []Problem) {
	root, problems := readObject(raw, contentField)
	if len(problems) > 0 {
		return "", nil, problems
	}
	if field := lookup(root, "kubeconfig"); field != nil {
		kubeconfig, problems := kubeconfigField(field)
		if len(problems) > 0 {
			return "", nil, problems
		}
		text, problems := onlyKubeconfig(kubeconfig)
		return text, nil, problems
	}
	bare, oidc, self := isKubeconfig(root), present(root, oidcField), present(root, selfField)
	switch {
	case oidc != nil && self != nil:
		return "", nil, []Problem{invalid(contentField, "has both oidcConfig and selfConfig; remove one of them")}
	case bare && (oidc != nil || self != nil):
		return "", nil, []Problem{invalid(contentField, "is a kubeconfig and has oidcConfig or selfConfig too; remove one of them")}
	case bare:
		text, problems := onlyKubeconfig(root)
		return text, nil, problems
	case oidc != nil:
		login, problems := readLogin(oidc, oidcField, onlyAccount)
		return "", login, problems
	case self != nil:
		login, problems := readLogin(self, selfField, onlyAccount)
		return "", login, problems
	default:
		return "", nil, []Problem{invalid(contentField, "holds no kubeconfig; put one into the field kubeconfig, or use oidcConfig or selfConfig")}
	}
}

// onlyKubeconfig returns content that is a kubeconfig and nothing else.
func onlyKubeconfig(kubeconfig *yaml.Node) (string, []Problem) {
	text, problems := rebuild(kubeconfig)
	if len(problems) > 0 {
		return "", problems
	}
	return encode(map[string]any{"kubeconfig": text})
}

// foreignContent sanitizes content that holds a kubeconfig though its Target is no Kubernetes cluster.
func foreignContent(raw []byte) (string, []Problem) {
	root, problems := readObject(raw, contentField)
	if len(problems) > 0 {
		return "", problems
	}
	field := lookup(root, "kubeconfig")
	if field == nil && isKubeconfig(root) {
		return onlyKubeconfig(root)
	}
	beside := without(root, "kubeconfig")
	if path, found := find(beside, contentField, position{texts: textDepth}); found {
		return "", []Problem{forbidden(path, "a kubeconfig is allowed only in the field kubeconfig, or as the content itself; move it")}
	}
	kubeconfig, problems := kubeconfigField(field)
	if len(problems) > 0 {
		return "", problems
	}
	text, problems := rebuild(kubeconfig)
	if len(problems) > 0 {
		return "", problems
	}
	object := map[string]any{}
	for key, value := range pairs(beside) {
		object[key.Value] = plain(value)
	}
	object["kubeconfig"] = text
	return encode(object)
}

// kubeconfigField returns the kubeconfig that the field of this name holds, as an object or as a text.
func kubeconfigField(field *yaml.Node) (*yaml.Node, []Problem) {
	if isText(field) {
		return readObject([]byte(field.Value), "kubeconfig")
	}
	if field.Kind != yaml.MappingNode {
		return nil, []Problem{invalid("kubeconfig", "expected a kubeconfig, found %s", kindOf(field))}
	}
	return field, nil
}

func without(object *yaml.Node, name string) *yaml.Node {
	rest := &yaml.Node{Kind: yaml.MappingNode}
	for key, value := range pairs(object) {
		if fold(key.Value) != name {
			rest.Content = append(rest.Content, key, value)
		}
	}
	return rest
}

func encode(object map[string]any) (string, []Problem) {
	text, err := json.Marshal(object)
	if err != nil {
		return "", []Problem{invalid(contentField, "cannot be written as JSON")}
	}
	return string(text), nil
}

// textDepth is how many texts inside each other are looked into.
const textDepth = 2

// holdsKubeconfig tells whether there is a kubeconfig anywhere in a text. In doubt there is; the package comment has the rules.
func holdsKubeconfig(text []byte) bool {
	return holds(text, textDepth)
}

func holds(text []byte, depth int) bool {
	documents, err := parse(text)
	doubtful := err != nil
	for _, document := range documents {
		if _, found := find(document, "", position{texts: depth}); found {
			return true
		}
		doubtful = doubtful || len(ambiguities(document, "", 0)) > 0
	}
	if !doubtful {
		return false
	}
	// Both the text and its scalars: only the former has what could not be parsed, only the latter have escapes resolved.
	words := &strings.Builder{}
	words.WriteString(fold(string(text)))
	for _, document := range documents {
		collect(document, words)
	}
	mentions := func(word string) bool { return strings.Contains(words.String(), word) }
	return mentions("kubeconfig") || mentions("clusters") && mentions("users")
}

// position is where find is: level counts objects and lists, texts how many texts inside each other it may still look into.
type position struct {
	level, texts int
}

func (p position) deeper() position {
	return position{level: p.level + 1, texts: p.texts}
}

// find returns the path of a kubeconfig in a node. The node may have ambiguities; what is nested too deeply is one and not seen.
func find(node *yaml.Node, path string, at position) (string, bool) {
	if at.level > maxLevels {
		return "", false
	}
	if node.Kind == yaml.ScalarNode {
		// Without a colon it is no object, neither in JSON nor in YAML.
		return path, at.texts > 0 && strings.Contains(node.Value, ":") && holds([]byte(node.Value), at.texts-1)
	}
	if node.Kind == yaml.SequenceNode {
		for i, item := range node.Content {
			if inner, found := find(item, fmt.Sprintf("%s[%d]", path, i), at.deeper()); found {
				return inner, true
			}
		}
	}
	if isKubeconfig(node) {
		return path, true
	}
	for key, value := range pairs(node) {
		inner := join(path, key.Value)
		if fold(key.Value) == "kubeconfig" && !isEmpty(value) {
			return inner, true
		}
		if inner, found := find(value, inner, at.deeper()); found {
			return inner, true
		}
	}
	return "", false
}

// isKubeconfig tells whether an object is meant to be a kubeconfig, from its kind or its fields.
func isKubeconfig(node *yaml.Node) bool {
	var isConfig, clusters, users bool
	for key, value := range pairs(node) {
		switch fold(key.Value) {
		case "kind":
			isConfig = isConfig || fold(value.Value) == "config"
		case "clusters":
			clusters = true
		case "users":
			users = true
		}
	}
	return isConfig || clusters && users
}

// collect writes all scalars in a node, keys included. Aliases are not followed: what they stand for is elsewhere in the node.
func collect(node *yaml.Node, words *strings.Builder) {
	if node.Kind == yaml.ScalarNode {
		words.WriteString("\n" + fold(node.Value))
	}
	for _, child := range node.Content {
		collect(child, words)
	}
}
