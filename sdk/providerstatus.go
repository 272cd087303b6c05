package sdk

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// DecodeProviderStatus reads the provider status that was saved last. found is false, and into untouched, if there is
// none. kind and apiVersion are those that the deployer saves, and older are other versions of its kind that it reads.
// Any other provider status, such as that of a newer version of the deployer, is an *Error with
// ReasonProviderStatusUnknown, which ends the job: a deployer that would overwrite it would forget what it names.
//
// Fields that into does not have, which a newer version with the same apiVersion has written, are ignored, and are kept
// in each provider status with that apiVersion that is saved in this call: in the objects that are still there, and in
// entries of lists that name the same object by apiVersion, kind, namespace and name, be it in the entry itself or in
// its field resource. They go with what they are part of.
func (r *Request) DecodeProviderStatus(into any, kind, apiVersion string, older ...string) (found bool, err error) {
	if r.DeployItem.Status.ProviderStatus == nil || len(r.DeployItem.Status.ProviderStatus.Raw) == 0 {
		return false, nil
	}
	document := r.DeployItem.Status.ProviderStatus.Raw
	foundVersion, foundKind := groupVersionKind(document)
	known := append([]string{apiVersion}, older...)
	if foundKind != kind || !slices.Contains(known, foundVersion) {
		return false, &Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Operation: "DecodeProviderStatus",
			Reason: ReasonProviderStatusUnknown,
			Err: fmt.Errorf("status.providerStatus: expected the kind %s in the version %s, but found the kind %q in the "+
				"version %q; nothing was changed: run the version of the plugin that has written it, or a newer one, again",
				kind, strings.Join(known, " or "), foundKind, foundVersion),
		}
	}
	if err := json.Unmarshal(document, into); err != nil {
		return false, fmt.Errorf("decode status.providerStatus: %w", err)
	}
	raw, err := decodeNumbers(document)
	if err != nil {
		return false, fmt.Errorf("decode status.providerStatus: %w", err)
	}
	r.unknown, r.savedVersion = unknownFields(raw, reflect.TypeOf(into)), foundVersion
	return true, nil
}

// SaveProviderStatus writes the provider status to the deploy item and returns once it is there. A deployer calls it
// before it does something that must not be forgotten, such as creating an object that it will have to delete. status
// is marshalled as JSON and must have apiVersion and kind. On an error the deployer must not do what depended on it;
// the error is retryable and can be returned as it is.
//
// In Render and Diff, and in a request that a test has made, it saves nothing.
func (r *Request) SaveProviderStatus(ctx context.Context, status any) error {
	document, err := r.marshalProviderStatus(status)
	if err != nil || r.call == nil {
		return err
	}
	return r.save(ctx, document)
}

// maxItemBytes is how large a deploy item may be: what etcd takes in one request by default, and the room that the host
// needs for conditions and errors.
const maxItemBytes = 1536<<10 - 32<<10

// CheckProviderStatus returns an *Error with ReasonItemTooLarge, which ends the job, if the deploy item would be too
// large to be saved with a provider status that grows by so many bytes. A deployer calls it before it creates what it
// could not note, such as the UIDs of objects. It asks nobody.
func (r *Request) CheckProviderStatus(status any, growth int) error {
	document, err := r.marshalProviderStatus(status)
	if err != nil {
		return err
	}
	item := *r.DeployItem
	item.Status.ProviderStatus = nil
	rest, err := json.Marshal(&item)
	if err != nil {
		return fmt.Errorf("marshal deploy item: %w", err)
	}
	if total := len(rest) + len(document) + growth; total > maxItemBytes {
		return &Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Reason: ReasonItemTooLarge,
			Err: fmt.Errorf("the deploy item would have %d bytes, of which %d are the list of what it deploys, but the API "+
				"server takes no more than %d; split it into several deploy items. Nothing was created",
				total, len(document)+growth, maxItemBytes),
		}
	}
	return nil
}

// save has the host save a document; none only has the job picked up.
func (r *Request) save(ctx context.Context, document []byte) error {
	answer, err := r.call.ask(ctx, func(sequence uint64) *deployerv1.PluginMessage {
		return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
			ProviderStatus: &deployerv1.ProviderStatus{Sequence: sequence, Document: document},
		}}
	})
	if text := answer.GetAcknowledgement().GetError(); err == nil && text != "" {
		err = errors.New(text)
	}
	if err != nil {
		return fmt.Errorf("save provider status: %w", err)
	}
	r.call.pending.Store(false)
	return nil
}

// marshalProviderStatus marshals what a deployer wants to keep. The API server refuses a provider status without
// apiVersion and kind with a message that would not lead the author here.
func (r *Request) marshalProviderStatus(status any) ([]byte, error) {
	document, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("marshal provider status: %w", err)
	}
	apiVersion, kind := groupVersionKind(document)
	if apiVersion == "" || kind == "" {
		return nil, fmt.Errorf("marshal provider status: %T has no apiVersion or no kind; "+
			"a provider status needs both", status)
	}
	if r.unknown == nil || r.savedVersion != apiVersion {
		return document, nil
	}
	value, err := decodeNumbers(document)
	if err != nil {
		return nil, fmt.Errorf("marshal provider status: %w", err)
	}
	r.unknown.restore(value)
	if document, err = json.Marshal(value); err != nil {
		return nil, fmt.Errorf("marshal provider status: %w", err)
	}
	return document, nil
}

// decodeNumbers reads a document without a loss of digits.
func decodeNumbers(document []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// unknown has the fields of a document that a type does not have.
type unknown struct {
	fields  map[string]any      // of an object itself
	below   map[string]*unknown // of the values of its other fields
	entries map[string]*unknown // of the entries of a list, by their identity
}

// unknownFields returns the fields of a value that a type does not have; nil for none. A type that reads itself has
// all.
func unknownFields(value any, t reflect.Type) *unknown {
	for t.Kind() == reflect.Pointer && !readsItself(t) {
		t = t.Elem()
	}
	out := &unknown{map[string]any{}, map[string]*unknown{}, map[string]*unknown{}}
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	switch {
	case readsItself(t):
	case t.Kind() == reflect.Struct:
		known := map[string]reflect.Type{}
		addFields(known, t)
		for name, below := range object {
			if field, ok := known[strings.ToLower(name)]; ok {
				out.below[name] = unknownFields(below, field)
			} else {
				out.fields[name] = below
			}
		}
	case t.Kind() == reflect.Map:
		for name, below := range object {
			out.below[name] = unknownFields(below, t.Elem())
		}
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		for _, entry := range list {
			if id := identity(entry); id != "" {
				out.entries[id] = unknownFields(entry, t.Elem())
			}
		}
	}
	isNil := func(_ string, u *unknown) bool { return u == nil }
	maps.DeleteFunc(out.below, isNil)
	maps.DeleteFunc(out.entries, isNil)
	if len(out.fields)+len(out.below)+len(out.entries) == 0 {
		return nil
	}
	return out
}

func readsItself(t reflect.Type) bool {
	unmarshaler := reflect.TypeFor[json.Unmarshaler]()
	return t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler)
}

// addFields adds the fields of a struct by their names in JSON, of which the case does not matter.
func addFields(known map[string]reflect.Type, t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := field.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case field.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			addFields(known, embedded)
		case field.IsExported():
			known[strings.ToLower(cmp.Or(name, field.Name))] = field.Type
		}
	}
}

// identity tells the entries of a list apart by the object that they name; empty for one that names none.
func identity(entry any) string {
	object := asObject(entry)
	if resource := asObject(object["resource"]); resource != nil {
		object = resource
	}
	name, _ := object["name"].(string)
	if name == "" {
		return ""
	}
	return fmt.Sprintf("%q %q %q %q", object["apiVersion"], object["kind"], object["namespace"], name)
}

// restore puts the fields into a value of the type that does not have them.
func (u *unknown) restore(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range u.fields {
			if _, found := value[name]; !found {
				value[name] = field
			}
		}
		for name, below := range u.below {
			below.restore(value[name])
		}
	case []any:
		for _, entry := range value {
			if below := u.entries[identity(entry)]; below != nil {
				below.restore(entry)
			}
		}
	}
}
