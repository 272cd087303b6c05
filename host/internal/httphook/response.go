package httphook

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The bounds of what a hook reports. Those of reason and message are Kubernetes' own for conditions.
const (
	maxConditionReason  = 1024
	maxConditionMessage = 32 << 10
	maxMessage          = 1 << 10 // of an error, in bytes
)

// response is the answer of a hook that has not failed.
type response struct {
	Object   json.RawMessage `json:"object"`
	Children json.RawMessage `json:"children"`
}

// readResponse reads the body of an answer. White space alone says nothing. The error says what breaks the contract.
func readResponse(body []byte) (response, error) {
	var r response
	if len(bytes.TrimSpace(body)) == 0 {
		return r, nil
	}
	if err := decodeObject(body, &r); err != nil {
		return r, fmt.Errorf("the body: %w", err)
	}
	return r, nil
}

// readAnswer makes an Answer of the body of an answer to a request about item and sent. The error says what breaks the contract.
func readAnswer(body []byte, item *v1alpha1.DeployItem, sent []child, declared []v1alpha1.ConditionType) (*Answer, error) {
	r, err := readResponse(body)
	if err != nil {
		return nil, err
	}
	children, err := readChildren(r.Children, sent)
	if err != nil {
		return nil, err
	}
	conditions, err := readObject(r.Object, item, declared)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	return &Answer{Children: children, Conditions: conditions}, nil
}

// readChildren returns all children with the objects of the answer; nil if it changes none.
func readChildren(document json.RawMessage, sent []child) ([]sdk.Child, error) {
	if isNull(document) {
		return nil, nil
	}
	var returned map[string]json.RawMessage
	if err := decodeObject(document, &returned); err != nil {
		return nil, fmt.Errorf("children: %w", err)
	}
	if len(returned) == 0 {
		return nil, nil
	}
	out := make([]sdk.Child, 0, len(sent))
	changed := false
	for _, c := range sent {
		object, ok := returned[c.key]
		if !ok {
			return nil, fmt.Errorf("children: expected %s, but found only %s: return all or none, as a hook cannot drop objects", quoted(c.key), keys(returned))
		}
		if err := c.check(object); err != nil {
			return nil, fmt.Errorf("children: %s: %w", quoted(c.key), err)
		}
		if !same(object, c.Object) {
			changed = true
			c.Object = object
		}
		out = append(out, c.Child)
	}
	if len(returned) > len(sent) {
		known := func(key string, _ json.RawMessage) bool {
			return slices.ContainsFunc(sent, func(c child) bool { return c.key == key })
		}
		maps.DeleteFunc(returned, known)
		return nil, fmt.Errorf("children: %s: expected only those of the request, as a hook cannot add objects", keys(returned))
	}
	if !changed {
		return nil, nil
	}
	return out, nil
}

// check tells whether an object is still the one that was sent.
func (c child) check(object json.RawMessage) error {
	id, err := identityOf(object)
	if err != nil {
		return err
	}
	if id != c.identity {
		return fmt.Errorf("expected %s, but found %s: a hook cannot put an object in the place of another", c.identity, id)
	}
	return nil
}

// same tells whether two JSON documents mean the same, with numbers compared digit by digit.
func same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	left, err := anyOf(a)
	if err != nil {
		return false
	}
	right, err := anyOf(b)
	return err == nil && reflect.DeepEqual(left, right)
}

func anyOf(document json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// keys lists some of the keys of an answer, in order.
func keys(objects map[string]json.RawMessage) string {
	const most = 5
	var listed []string
	for i, key := range slices.Sorted(maps.Keys(objects)) {
		if i == most {
			listed = append(listed, fmt.Sprintf("and %d more", len(objects)-most))
			break
		}
		listed = append(listed, quoted(key))
	}
	return strings.Join(listed, ", ")
}

// object is what counts of a returned item. Everything else of it is ignored, whatever it is.
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

// readObject returns the declared conditions of a returned item, which may be absent or empty.
func readObject(document json.RawMessage, item *v1alpha1.DeployItem, declared []v1alpha1.ConditionType) ([]v1alpha1.Condition, error) {
	if isNull(document) {
		return nil, nil
	}
	var o object
	if err := decodeObject(document, &o); err != nil {
		return nil, err
	}
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

// unchanged is the error for a part of the item's identity that is another one; one that is not there is none.
func unchanged[T ~string](field string, found *T, want T) error {
	if found == nil || *found == want {
		return nil
	}
	return fmt.Errorf("expected %s %s, but found %s: return the object of the request", field, quoted(string(want)), quoted(string(*found)))
}

// conditionReason is the pattern of Kubernetes for the reasons of conditions, of which its own bound is the only other rule.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// readCondition reads a condition; nil if it is not declared, whatever else it is.
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
		return nil, fmt.Errorf("%s: expected the status True, False or Unknown, but found %s", named.Type, quoted(string(c.Status)))
	case c.Reason != "" && (len(c.Reason) > maxConditionReason || !conditionReason.MatchString(c.Reason)):
		return nil, fmt.Errorf("%s: expected a reason in CamelCase, of at most %d characters, but found %s", named.Type, maxConditionReason, quoted(c.Reason))
	case utf8.RuneCountInString(c.Message) > maxConditionMessage:
		return nil, fmt.Errorf("%s: expected a message of at most %d characters, but found %d", named.Type, maxConditionMessage, utf8.RuneCountInString(c.Message))
	}
	return &v1alpha1.Condition{Type: named.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}, nil
}

// failure is the answer of a hook that has failed.
type failure struct {
	Message   *string `json:"message"`
	Permanent *bool   `json:"permanent"`
	Continue  *bool   `json:"continue"`
}

// readFailure reads the body of an answer that is not 2xx. What is not of the form that the Hooks API gives is a message as a whole.
func readFailure(body []byte) (message string, permanent, continues bool) {
	var f failure
	if err := decodeObject(body, &f); err != nil || f == (failure{}) {
		return clean(string(body)), false, false
	}
	if f.Message != nil {
		message = clean(*f.Message)
	}
	continues = f.Continue != nil && *f.Continue
	return message, f.Permanent != nil && *f.Permanent && !continues, continues
}

// clean bounds a foreign text and makes its control characters visible.
func clean(text string) string {
	text = strings.TrimSpace(text)
	var out strings.Builder
	for _, r := range text {
		visible := string(r)
		if !unicode.IsPrint(r) {
			visible = strings.Trim(strconv.QuoteRune(r), "'")
		}
		if out.Len()+len(visible) > maxMessage {
			out.WriteString("...")
			break
		}
		out.WriteString(visible)
	}
	return out.String()
}
