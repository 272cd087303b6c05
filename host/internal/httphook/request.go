package httphook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ErrChildren is wrapped by the error for children that no hook can be asked about: one is no object of Kubernetes, or two have the
// same name. That is the fault of the plugin that has rendered them.
var ErrChildren = errors.New("the desired objects cannot be given to a hook")

// request is what a hook gets.
type request struct {
	FormFactor formFactor              `json:"formFactor"`
	Phase      v1alpha1.HookCapability `json:"phase"`
	Object     *v1alpha1.DeployItem    `json:"object"`
	// Children are absent from a finalize, and there otherwise, even if there are none.
	Children map[string]json.RawMessage `json:"children,omitzero"`
}

type formFactor struct {
	Name string `json:"name"`
}

// marshal returns the request's JSON. Objects come out as they went in, but for white space between tokens.
func (r request) marshal() ([]byte, error) {
	item := *r.Object
	item.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	r.Object = &item
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("marshal request to a hook: %w", err)
	}
	return out.Bytes(), nil
}

// identity is what tells one object from another. A hook may change everything else.
type identity struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

func (i identity) String() string {
	name := i.Metadata.Name
	if i.Metadata.Namespace != "" {
		name = i.Metadata.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s of %s", quoted(i.Kind), quoted(name), quoted(i.APIVersion))
}

// child is one desired object, with the key by which a hook knows it.
type child struct {
	sdk.Child
	identity
	key string
}

// identify gives each child its key: the kind in lower case if there is only one of it, otherwise <kind>.<namespace>.<name>. Two objects
// that would have the same key, such as those without a name yet, have the name of the child appended.
func identify(children []sdk.Child) ([]child, error) {
	out := make([]child, len(children))
	kinds := map[string]int{}
	names := map[string]bool{}
	for i, c := range children {
		if names[c.Name] {
			return nil, fmt.Errorf("%w: two have the name %s", ErrChildren, quoted(c.Name))
		}
		names[c.Name] = true
		id, err := identityOf(c.Object)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrChildren, quoted(c.Name), err)
		}
		out[i] = child{Child: c, identity: id}
		kinds[strings.ToLower(id.Kind)]++
	}
	keys := map[string]int{}
	for i := range out {
		c := &out[i]
		if c.key = strings.ToLower(c.Kind); kinds[c.key] > 1 {
			c.key += "." + c.Metadata.Namespace + "." + c.Metadata.Name
		}
		keys[c.key]++
	}
	for i := range out {
		if c := &out[i]; keys[c.key] > 1 {
			c.key += "/" + c.Name // no name that Kubernetes takes has a slash
		}
	}
	return out, nil
}

// identityOf reads the identity of an object of Kubernetes.
func identityOf(object json.RawMessage) (identity, error) {
	var id identity
	if err := decodeObject(object, &id); err != nil {
		return id, err
	}
	if id.APIVersion == "" || id.Kind == "" {
		return id, errors.New("expected an object with apiVersion and kind, but found none")
	}
	return id, nil
}

// byKey returns the objects by their keys. It fails if two have the same one: that of an object whose kind is no kind of Kubernetes.
func byKey(children []child) (map[string]json.RawMessage, error) {
	objects := make(map[string]json.RawMessage, len(children))
	for _, c := range children {
		if _, ok := objects[c.key]; ok {
			return nil, fmt.Errorf("%w: two would have the key %s", ErrChildren, quoted(c.key))
		}
		objects[c.key] = c.Object
	}
	return objects, nil
}

// decodeObject decodes a JSON object by the exact names of its fields, none of which may be there twice: who reads it next must not find
// another value.
func decodeObject(document json.RawMessage, into any) error {
	if found := jsonType(document); found != "an object" {
		return fmt.Errorf("expected a JSON object, but found %s", found)
	}
	strict, err := kjson.UnmarshalStrict(document, into, kjson.DisallowDuplicateFields)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return fmt.Errorf("expected a JSON object of the right form: %w", err)
	}
	return nil
}

// jsonType names the type of a JSON value by its first character.
func jsonType(document json.RawMessage) string {
	trimmed := bytes.TrimLeft(document, " \t\r\n")
	if len(trimmed) == 0 {
		return "nothing"
	}
	switch trimmed[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return "a number"
	}
	return "no JSON"
}

// isNull tells whether a value is absent, as null also means.
func isNull(document json.RawMessage) bool {
	return len(document) == 0 || string(document) == "null"
}
