package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Request is one call of a deployer for one deploy item. It is valid until the call returns.
//
// Its context ends when the job's time is up, when the job is aborted, interrupted or superseded, when this replica of the
// host loses the item, and when the host stops. If the host traces the job it has the trace context, as OpenTelemetry's packages expect it, so that
// spans which a deployer makes with it are part of the job's trace.
type Request struct {
	// DeployItem as it was read before the call, with the provider status that was saved last. Changes to it have no effect.
	DeployItem *v1alpha1.DeployItem
	// Target of the item with its content; nil for an item without one.
	Target *Target
	// Context of the item. It is never nil but may be empty.
	Context *v1alpha1.Context
	// Credentials that the Context names; nil unless the plugin has asked for them with ContextCredentials, or if the host is too old to
	// hand them over.
	Credentials *Credentials
	// HostCluster is the access to the cluster that the host runs in; nil unless the plugin has asked for it with HostClusterAccess and the
	// operator has granted it.
	HostCluster *HostCluster
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
	resolveTarget(ctx context.Context, name string) (*Target, error)
	resolveRegistryCredentials(ctx context.Context, namespace, name string) (*RegistryCredentials, error)
	stopping() <-chan struct{}
}

// DecodeConfig reads the provider configuration into a struct, strictly: an unknown field, a duplicate one, a wrong type and
// a missing configuration are errors, each with the path of its field, in an *Error with the code ERR_CONFIGURATION_PROBLEM.
// All of them are reported at once.
func (r *Request) DecodeConfig(into any) error {
	unknown, wrong, err := r.DecodeConfigPartly(into)
	if err != nil {
		return err
	}
	return misread(wrong, unknown)
}

// DecodeConfigLeniently is DecodeConfig for a deployer whose users come from one that passes over what it does not know: unknown and
// duplicate fields are no error. They are returned as texts that name the field with its path, such as `unknown field "manifest"`, so that
// somebody can be told.
func (r *Request) DecodeConfigLeniently(into any) (unknown []string, err error) {
	unknown, wrong, err := r.DecodeConfigPartly(into)
	if err != nil {
		return nil, err
	}
	if len(wrong) > 0 {
		return nil, misread(wrong, nil)
	}
	return unknown, nil
}

// DecodeConfigPartly is DecodeConfigLeniently for a deployer that has more to say about a configuration than its types, and says all at
// once: values of a wrong type are no error either. They are returned, and the struct has all others, and empty values in their places.
func (r *Request) DecodeConfigPartly(into any) (unknown []string, wrong []Problem, err error) {
	if r.DeployItem.Spec.Config == nil || len(r.DeployItem.Spec.Config.Raw) == 0 {
		return nil, nil, configError(ReasonConfigMissing, errors.New("spec.config: the provider configuration is missing"))
	}
	unknown, wrong, err = decode(r.DeployItem.Spec.Config.Raw, into)
	if err != nil {
		return nil, nil, configError(ReasonConfigInvalid, fmt.Errorf("spec.config: %w", err))
	}
	return unknown, wrong, nil
}

// misread is the error about a configuration of which some cannot be read; nil if there is nothing to say.
func misread(wrong []Problem, unknown []string) error {
	if len(wrong)+len(unknown) == 0 {
		return nil
	}
	texts := make([]string, 0, len(wrong)+len(unknown))
	for _, p := range wrong {
		texts = append(texts, strings.TrimPrefix(p.Field+": "+p.Message, ": "))
	}
	return configError(ReasonConfigInvalid, errors.New("spec.config: "+strings.Join(append(texts, unknown...), "; ")))
}

func configError(reason string, err error) error {
	return &Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
		Operation: "DecodeConfig",
		Reason:    reason,
		Err:       err,
	}
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

// ResolveTarget returns another Target of the deploy item's namespace with its content, for a provider configuration that names one. What
// is said of Request.Target goes for it, too. It blocks until the host has answered or ctx ends; several may be asked for at the same time.
//
// The error can be returned as it is. What the host finds wrong with the Target is an *Error that names the Target and has the codes that
// belong to it. A host that is too old to be asked is an *Error with ReasonHostTooOld, at once. Render and Diff, and requests that did not
// come from a host, have nobody to ask.
func (r *Request) ResolveTarget(ctx context.Context, name string) (*Target, error) {
	if r.reporter == nil {
		return nil, fmt.Errorf("resolve Target %q: only Reconcile, Delete, Abort and ForceReconcile can ask the host for another Target", name)
	}
	return r.reporter.resolveTarget(ctx, name)
}

// ResolveRegistryCredentials returns the credentials for registries in a Secret that a provider configuration names. It must be of the deploy
// item's namespace, for which an empty one stands, and of a type with Docker's configuration; what is wrong with it otherwise is told by
// RegistryCredentials.Problem, which does not say what names the Secret. What is said of ResolveTarget goes for it, too.
func (r *Request) ResolveRegistryCredentials(ctx context.Context, namespace, name string) (*RegistryCredentials, error) {
	if r.reporter == nil {
		return nil, fmt.Errorf("resolve Secret %q: only Reconcile, Delete, Abort and ForceReconcile can ask the host for credentials", name)
	}
	return r.reporter.resolveRegistryCredentials(ctx, namespace, name)
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
