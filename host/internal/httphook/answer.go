package httphook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The bounds of reported conditions. Those of reason and message are Kubernetes' own.
const (
	maxConditionReason  = 1024
	maxConditionMessage = 32 << 10
)

// response has the relevant fields of a good answer.
type response struct {
	Object   object                     `json:"object"`
	Children map[string]json.RawMessage `json:"children"`
}

// object has the relevant fields of a returned item. Everything else of it is ignored.
type object struct {
	APIVersion *string `json:"apiVersion"`
	Kind       *string `json:"kind"`
	Metadata   struct {
		Namespace *string    `json:"namespace"`
		Name      *string    `json:"name"`
		UID       *types.UID `json:"uid"`
	} `json:"metadata"`
	Status struct {
		Conditions []json.RawMessage `json:"conditions"`
	} `json:"status"`
}

// readResponse reads the body of an answer. White space alone is no answer, and allowed. The error names the breach of
// the contract.
func readResponse(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := decodeObject(body, into); err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	return nil
}

// readAnswer makes an Answer of the body of an answer to a request about item and sent. The error names the breach of
// the contract.
func readAnswer(
	body []byte, item *v1alpha1.DeployItem, sent []child, declared []v1alpha1.ConditionType,
) (*Answer, error) {
	var r response
	if err := readResponse(body, &r); err != nil {
		return nil, err
	}
	children, err := readChildren(r.Children, sent)
	if err != nil {
		return nil, fmt.Errorf("children: %w", err)
	}
	conditions, err := readObject(r.Object, item, declared)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	return &Answer{Children: children, Conditions: conditions}, nil
}

// readChildren returns all children with the objects of the answer; nil if it changes none.
func readChildren(returned map[string]json.RawMessage, sent []child) ([]sdk.Child, error) {
	if len(returned) == 0 {
		return nil, nil
	}
	out := make([]sdk.Child, 0, len(sent))
	changed := false
	for _, c := range sent {
		object, ok := returned[c.key]
		if !ok {
			return nil, fmt.Errorf("expected %.64q, but it is missing: "+
				"return all or none, as a hook cannot drop objects", c.key)
		}
		if id, err := identityOf(object); err != nil {
			return nil, fmt.Errorf("%.64q: %w", c.key, err)
		} else if id != c.identity {
			return nil, fmt.Errorf("%.64q: expected %s, but found %s: "+
				"a hook cannot put an object in the place of another", c.key, c.identity, id)
		}
		delete(returned, c.key)
		if !same(object, c.Object) {
			changed = true
			c.Object = object
		}
		out = append(out, c.Child)
	}
	for key := range returned {
		return nil, fmt.Errorf("%.64q: expected only those of the request, as a hook cannot add objects", key)
	}
	if !changed {
		return nil, nil
	}
	return out, nil
}

// same reports whether two JSON documents mean the same. Another way to write a number is a change.
func same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var left, right any
	err := cmp.Or(kjson.UnmarshalCaseSensitivePreserveInts(a, &left), kjson.UnmarshalCaseSensitivePreserveInts(b, &right))
	return err == nil && reflect.DeepEqual(left, right)
}

// readObject returns the declared conditions of a returned item; it may be absent or empty.
func readObject(o object, item *v1alpha1.DeployItem, declared []v1alpha1.ConditionType) ([]v1alpha1.Condition, error) {
	err := cmp.Or(
		unchanged("apiVersion", o.APIVersion, v1alpha1.DeployItemGVK.GroupVersion().String()),
		unchanged("kind", o.Kind, v1alpha1.DeployItemGVK.Kind),
		unchanged("metadata.namespace", o.Metadata.Namespace, item.Namespace),
		unchanged("metadata.name", o.Metadata.Name, item.Name),
		unchanged("metadata.uid", o.Metadata.UID, item.UID),
	)
	if err != nil {
		return nil, err
	}
	var conditions []v1alpha1.Condition
	for i, document := range o.Status.Conditions {
		c, err := readCondition(document, declared)
		switch {
		case err != nil:
			return nil, fmt.Errorf("status.conditions[%d]: %w", i, err)
		case c == nil:
		case slices.ContainsFunc(conditions, func(other v1alpha1.Condition) bool { return other.Type == c.Type }):
			return nil, fmt.Errorf("status.conditions[%d]: the condition %s is there twice", i, c.Type)
		default:
			conditions = append(conditions, *c)
		}
	}
	return conditions, nil
}

// unchanged is the error for a changed part of the item's identity; nil for an absent part.
func unchanged[T ~string](field string, found *T, want T) error {
	if found == nil || *found == want {
		return nil
	}
	return fmt.Errorf("expected %s %.64q, but found %.64q: return the object of the request",
		field, string(want), string(*found))
}

// conditionReason is the pattern of Kubernetes for the reasons of conditions; its own bound is the only other rule.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// readCondition reads a condition; nil if it is not declared.
func readCondition(document json.RawMessage, declared []v1alpha1.ConditionType) (*v1alpha1.Condition, error) {
	var named struct {
		Type v1alpha1.ConditionType `json:"type"`
	}
	if err := decodeObject(document, &named); err != nil {
		return nil, err
	}
	if !slices.Contains(declared, named.Type) {
		return nil, nil //nolint:nilnil // one that does not count
	}
	var c struct {
		Status  v1alpha1.ConditionStatus `json:"status"`
		Reason  string                   `json:"reason"`
		Message string                   `json:"message"`
	}
	if err := decodeObject(document, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", named.Type, err)
	}
	known := []v1alpha1.ConditionStatus{v1alpha1.ConditionTrue, v1alpha1.ConditionFalse, v1alpha1.ConditionUnknown}
	switch {
	case !slices.Contains(known, c.Status):
		return nil, fmt.Errorf("%s: expected the status True, False or Unknown, but found %.64q", named.Type, c.Status)
	case c.Reason != "" && (len(c.Reason) > maxConditionReason || !conditionReason.MatchString(c.Reason)):
		return nil, fmt.Errorf("%s: expected a reason in CamelCase, of at most %d characters, but found %.64q",
			named.Type, maxConditionReason, c.Reason)
	case utf8.RuneCountInString(c.Message) > maxConditionMessage:
		return nil, fmt.Errorf("%s: expected a message of at most %d characters, but found %d",
			named.Type, maxConditionMessage, utf8.RuneCountInString(c.Message))
	}
	return &v1alpha1.Condition{Type: named.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}, nil
}
