package httphook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ErrChildren is wrapped by the error for children not fit for a request: one is no object of Kubernetes, or two have
// the same key. That is the fault of the plugin.
var ErrChildren = errors.New("the desired objects cannot be given to a hook")

// request is the body of a call.
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
func marshal(r request) ([]byte, error) {
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

// identity tells one object from another. A hook may change everything else.
type identity struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

func (i identity) String() string {
	name := strings.TrimPrefix(i.Metadata.Namespace+"/"+i.Metadata.Name, "/")
	return fmt.Sprintf("%.64q %.128q of %.64q", i.Kind, name, i.APIVersion)
}

// child is one desired object, with its key for the hook.
type child struct {
	sdk.Child
	identity identity
	key      string
}

// identify gives each child its key: the kind in lower case if there is only one of it, otherwise
// <kind>.<namespace>.<name>. Objects with equal keys, such as those without a name yet, have the name of the child
// appended.
func identify(children []sdk.Child) ([]child, error) {
	out := make([]child, len(children))
	kinds, keys, used := map[string]int{}, map[string]int{}, map[string]bool{}
	for i, c := range children {
		id, err := identityOf(c.Object)
		if err != nil {
			return nil, fmt.Errorf("%w: %.64q: %w", ErrChildren, c.Name, err)
		}
		out[i] = child{Child: c, identity: id, key: strings.ToLower(id.Kind)}
		kinds[out[i].key]++
	}
	for i := range out {
		if c := &out[i]; kinds[c.key] > 1 {
			c.key += "." + c.identity.Metadata.Namespace + "." + c.identity.Metadata.Name
		}
		keys[out[i].key]++
	}
	for i := range out {
		c := &out[i]
		if keys[c.key] > 1 {
			// No valid name of Kubernetes has a slash.
			c.key += "/" + c.Name
		}
		// Two children have one name, or one an invalid kind.
		if used[c.key] {
			return nil, fmt.Errorf("%w: two would have the key %.64q", ErrChildren, c.key)
		}
		used[c.key] = true
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

// decodeObject decodes a JSON object by the exact names of its fields. Each may be there only once: the next reader
// must not find another value.
func decodeObject(document json.RawMessage, into any) error {
	if trimmed := bytes.TrimLeft(document, " \t\r\n"); !bytes.HasPrefix(trimmed, []byte("{")) {
		return fmt.Errorf("expected a JSON object, but found %.32q", trimmed)
	}
	strict, err := kjson.UnmarshalStrict(document, into, kjson.DisallowDuplicateFields)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if field, sentence, ok := text.Mismatch(err, nil); ok {
		return errors.New(strings.TrimPrefix(field+": "+sentence, ": "))
	}
	if err != nil {
		return fmt.Errorf("expected a valid JSON object: %w", err)
	}
	return nil
}
