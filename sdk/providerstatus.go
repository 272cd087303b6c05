package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/internal/document"
)

// DecodeProviderStatus reads the last saved provider status. Without one, found is false and into untouched. The
// deployer saves kind and apiVersion, and also reads the older versions of its kind. Any other provider status, such as
// from a newer version of the deployer, is an *Error with ReasonProviderStatusUnknown and ends the job, because
// overwriting it would lose its contents.
//
// Fields without a place in into, from a newer version with the same apiVersion, are ignored. They are kept in each
// provider status with that apiVersion that is saved in this call: in the remaining objects, and in entries of lists
// for the same object by apiVersion, kind, namespace and name, either in the entry itself or in its field resource.
// They go with their object or entry.
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
	if err := r.status.Decode(saved, into); err != nil {
		return false, fmt.Errorf("decode status.providerStatus: %w", err)
	}
	return true, nil
}

// SaveProviderStatus writes the provider status to the deploy item and returns once it is there. A deployer calls it
// before a step that needs a record, such as the creation of an object to delete later. status is marshalled as JSON
// and must have apiVersion and kind. On an error the deployer must not take the step; the error is retryable and can be
// returned as it is.
//
// In Render, Diff and Validate, and in a request of a test, it saves nothing.
func (r *Request) SaveProviderStatus(ctx context.Context, status any) error {
	document, err := r.marshalProviderStatus(status)
	if err != nil {
		return err
	}
	return r.call.Save(ctx, document)
}

// maxItemBytes bounds a deploy item: etcd's default for one request, less the room for the host's conditions and
// errors.
const maxItemBytes = 1536<<10 - 32<<10

// CheckProviderStatus returns an *Error with ReasonItemTooLarge if the deploy item would be too large to be saved with
// a provider status and a growth of so many bytes; the error ends the job. A deployer calls it before it creates
// objects without room for a record. It makes no request.
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

func (r *Request) marshalProviderStatus(status any) ([]byte, error) {
	saved, err := r.status.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("marshal provider status: %w", err)
	}
	return saved, nil
}
