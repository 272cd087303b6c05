package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/internal/document"
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
	saved := r.DeployItem.Status.ProviderStatus.Raw
	foundVersion, foundKind := document.GroupVersionKind(saved)
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
	if err := json.Unmarshal(saved, into); err != nil {
		return false, fmt.Errorf("decode status.providerStatus: %w", err)
	}
	raw, err := document.Numbers(saved)
	if err != nil {
		return false, fmt.Errorf("decode status.providerStatus: %w", err)
	}
	r.unknown, r.savedVersion = document.UnknownFields(raw, reflect.TypeOf(into)), foundVersion
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
	return r.call.Save(ctx, document)
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

// marshalProviderStatus marshals what a deployer wants to keep. The API server refuses a provider status without
// apiVersion and kind with a message that would not lead the author here.
func (r *Request) marshalProviderStatus(status any) ([]byte, error) {
	saved, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("marshal provider status: %w", err)
	}
	apiVersion, kind := document.GroupVersionKind(saved)
	if apiVersion == "" || kind == "" {
		return nil, fmt.Errorf("marshal provider status: %T has no apiVersion or no kind; "+
			"a provider status needs both", status)
	}
	if r.unknown == nil || r.savedVersion != apiVersion {
		return saved, nil
	}
	value, err := document.Numbers(saved)
	if err != nil {
		return nil, fmt.Errorf("marshal provider status: %w", err)
	}
	r.unknown.Restore(value)
	if saved, err = json.Marshal(value); err != nil {
		return nil, fmt.Errorf("marshal provider status: %w", err)
	}
	return saved, nil
}
