package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Request is one call of a deployer for one deploy item. It is valid until the call returns.
//
// Its context ends when the job's time is up, when the job is aborted, interrupted or superseded, when this replica of the
// host loses the item, and when the host stops.
type Request struct {
	// DeployItem as it was read before the call, with the provider status that was saved last. Changes to it have no effect.
	DeployItem *v1alpha1.DeployItem
	// Target of the item with its content; nil for an item without one.
	Target *Target
	// Context of the item. It is never nil but may be empty.
	Context *v1alpha1.Context
	// JobID is the job that the call belongs to.
	JobID string
	// Children replace the desired objects that the deployer would render, if it is a Renderer; nil if nobody changed them.
	Children []Child
	// Log arrives in the host with its level and fields, and with the plugin, the deploy item and the job added.
	Log *slog.Logger

	reporter reporter
}

// reporter is how a request talks back to the host. The zero request of a test has none.
type reporter interface {
	progress(step, message string)
	event(warning bool, reason, message string)
	saveProviderStatus(ctx context.Context, document []byte) error
	stopping() <-chan struct{}
}

// DecodeConfig reads the provider configuration into a struct, strictly: an unknown field, a duplicate one, a wrong type and
// a missing configuration are errors, each with the path of its field, in an *Error with the code ERR_CONFIGURATION_PROBLEM.
// Unknown and duplicate fields are reported all at once, a wrong type alone and first.
func (r *Request) DecodeConfig(into any) error {
	if r.DeployItem.Spec.Config == nil || len(r.DeployItem.Spec.Config.Raw) == 0 {
		return &Error{
			Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Operation: "DecodeConfig",
			Reason:    ReasonConfigMissing,
			Err:       errors.New("spec.config: the provider configuration is missing"),
		}
	}
	if err := decodeStrict(r.DeployItem.Spec.Config.Raw, into); err != nil {
		return &Error{
			Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Operation: "DecodeConfig",
			Reason:    ReasonConfigInvalid,
			Err:       fmt.Errorf("spec.config: %w", err),
		}
	}
	return nil
}

// ConfigGroupVersionKind returns apiVersion and kind of the provider configuration; both are empty if it is missing.
func (r *Request) ConfigGroupVersionKind() (apiVersion, kind string) {
	if r.DeployItem.Spec.Config == nil {
		return "", ""
	}
	return groupVersionKind(r.DeployItem.Spec.Config.Raw)
}

// DecodeProviderStatus reads the provider status that was saved last. found is false, and into untouched, if there is none.
// It is lenient: fields that a newer version of the deployer wrote are passed over.
func (r *Request) DecodeProviderStatus(into any) (found bool, err error) {
	if r.DeployItem.Status.ProviderStatus == nil || len(r.DeployItem.Status.ProviderStatus.Raw) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(r.DeployItem.Status.ProviderStatus.Raw, into); err != nil {
		return false, fmt.Errorf("decode status.providerStatus: %w", err)
	}
	return true, nil
}

// SaveProviderStatus writes the provider status to the deploy item and returns once it is there. A deployer calls it before
// it does something that must not be forgotten, such as creating an object that it will have to delete. status is marshalled
// as JSON and must have apiVersion and kind. On an error the deployer must not do what depended on it; the error is
// retryable and can be returned as it is.
func (r *Request) SaveProviderStatus(ctx context.Context, status any) error {
	document, err := marshalProviderStatus(status)
	if err != nil {
		return err
	}
	if r.reporter == nil {
		return nil
	}
	return r.reporter.saveProviderStatus(ctx, document)
}

// Progress tells what the deployer is doing within a call: step is a short CamelCase name, such as ReadChart, message a sentence,
// such as "reading the chart". A user sees both in the item's condition Reconciling if the call goes on for a second or more, and
// the message in the error of a job whose time is up. It waits for no answer. What a job waits for between calls is told by
// InProgress.
func (r *Request) Progress(step, message string) {
	if r.reporter != nil {
		r.reporter.progress(step, message)
	}
}

// Event records a Kubernetes event of the deploy item with a CamelCase reason. It waits for no answer. The message must hold
// no secrets.
func (r *Request) Event(reason, message string) {
	if r.reporter != nil {
		r.reporter.event(false, reason, message)
	}
}

// Warning is like Event, of type Warning.
func (r *Request) Warning(reason, message string) {
	if r.reporter != nil {
		r.reporter.event(true, reason, message)
	}
}

// Stopping is closed when the host wants the call to end soon: a deployer that can stop in order, such as between two steps,
// then returns InProgress. The context is cancelled some time later. It is nil, and so never closed, for a request that
// did not come from a host.
func (r *Request) Stopping() <-chan struct{} {
	if r.reporter == nil {
		return nil
	}
	return r.reporter.stopping()
}

func groupVersionKind(document []byte) (apiVersion, kind string) {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(document, &meta); err != nil {
		return "", ""
	}
	return meta.APIVersion, meta.Kind
}

// marshalProviderStatus marshals what a deployer wants to keep. The API server refuses a provider status without apiVersion
// and kind with a message that would not lead the author here.
func marshalProviderStatus(status any) ([]byte, error) {
	document, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("marshal provider status: %w", err)
	}
	if apiVersion, kind := groupVersionKind(document); apiVersion == "" || kind == "" {
		return nil, fmt.Errorf("marshal provider status: %T has no apiVersion or no kind; a provider status needs both", status)
	}
	return document, nil
}
