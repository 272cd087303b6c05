package httphook

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Options describe a Hook. Registration, URL and Metrics are required.
type Options struct {
	// Registration is the name of the DeployerRegistration.
	Registration string
	// URL of the server, absolute, of scheme http or https, and without a user.
	URL *url.URL
	// Timeout of one request, from its first byte to the last one of the answer. Zero stands for defaultTimeout.
	Timeout time.Duration
	// Capabilities are the phases of the hook's calls.
	Capabilities []v1alpha1.HookCapability
	// FormFactor is the name of the form factor for the server. Empty for the argument of a call.
	FormFactor string
	// Conditions are the types of the conditions to take from answers.
	Conditions []v1alpha1.ConditionType
	// TLS has the authorities of the server and the host's certificate. nil for the authorities of the system.
	TLS *tls.Config
	// Authorization is the value of that header. Empty for none.
	Authorization string
	// Version of the host, for the header User-Agent.
	Version string
	// Metrics count the requests.
	Metrics *Metrics
}

// Hook is one HTTP hook. It may be used concurrently.
type Hook struct {
	options Options
	client  *http.Client
	calls   calls
}

// New returns a Hook. It makes no request. Its idle connections end by themselves after idleTimeout.
func New(o Options) *Hook {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	return &Hook{options: o, client: newClient(o.TLS)}
}

// Registration returns the name of the DeployerRegistration.
func (h *Hook) Registration() string { return h.options.Registration }

// URL returns the address of the server without the query, a possible secret.
func (h *Hook) URL() string { return shown(h.options.URL) }

// Has reports whether the hook is called in the phase.
func (h *Hook) Has(phase v1alpha1.HookCapability) bool {
	return slices.Contains(h.options.Capabilities, phase)
}

// Conditions returns the types of the conditions reported by the hook. The caller does not change them.
func (h *Hook) Conditions() []v1alpha1.ConditionType { return h.options.Conditions }

// Answer has the changes of a hook.
type Answer struct {
	// Children are all children, in the order of those in the request and with their names; nil without a change. The
	// object of an unchanged child is, byte for byte, that of the request.
	Children []sdk.Child
	// Conditions are the reported ones of declared types: type, status, reason and message alone, without times. Each
	// type is there once at most, and a status is True, False or Unknown.
	Conditions []v1alpha1.Condition
}

// PreReconcile asks the hook before the children of an item are applied. formFactor counts if the options have none.
// item and children are not changed. It blocks until the hook has answered, its timeout has passed, or ctx has ended.
//
// The error is an *Error if the hook has failed, wraps ErrChildren, or wraps the cause of the end of ctx.
func (h *Hook) PreReconcile(
	ctx context.Context, formFactor string, item *v1alpha1.DeployItem, children []sdk.Child,
) (*Answer, error) {
	sent, err := identify(children)
	if err != nil {
		return nil, err
	}
	objects := map[string]json.RawMessage{}
	for _, c := range sent {
		objects[c.key] = c.Object
	}
	var answer *Answer
	err = h.ask(ctx, v1alpha1.HookPreReconcile, formFactor, item, objects, func(document []byte) (err error) {
		answer, err = readAnswer(document, item, sent, h.options.Conditions)
		return err
	})
	return answer, err
}

// Finalize asks the hook before an item is deleted. Without an error the hook agrees. Otherwise it is as PreReconcile.
func (h *Hook) Finalize(ctx context.Context, formFactor string, item *v1alpha1.DeployItem) error {
	return h.ask(ctx, v1alpha1.HookFinalize, formFactor, item, nil, func(document []byte) error {
		// The content of the answer does not count; but a server that answers with a page is no hook, and has finalized
		// nothing.
		return readResponse(document, &struct{}{})
	})
}

// ask sends a request, has the body of a 2xx answer read, and counts the result. An error of read is a contract
// violation.
func (h *Hook) ask(
	ctx context.Context, phase v1alpha1.HookCapability, name string, item *v1alpha1.DeployItem,
	children map[string]json.RawMessage, read func([]byte) error,
) error {
	by := formFactor{Name: cmp.Or(h.options.FormFactor, name)}
	body, err := marshal(request{FormFactor: by, Phase: phase, Object: item, Children: children})
	if err != nil {
		return err
	}
	var failed *Error
	if len(body) > maxBody {
		failed = &Error{Reason: ReasonRequestTooLarge, Permanent: true, Message: fmt.Sprintf(
			"expected a deploy item and desired objects of at most %d MiB of JSON, but found %d: "+
				"make several deploy items of it", maxBody>>20, len(body)>>20)}
	} else {
		start := time.Now()
		var code int
		code, failed = h.post(ctx, body, read)
		h.options.Metrics.observe(h.options.Registration, phase, codeLabel(ctx, code, failed), time.Since(start))
	}
	switch {
	case failed == nil:
		h.calls.note(nil)
		return nil
	// The end of ctx says nothing about the hook.
	case ctx.Err() != nil:
		return fmt.Errorf("ask hook of DeployerRegistration %q (%s): %w", h.Registration(), phase, context.Cause(ctx))
	}
	failed.Registration, failed.Phase, failed.URL = h.options.Registration, phase, h.URL()
	// The hook was not called for a request that is too large.
	if failed.Reason != ReasonRequestTooLarge {
		h.calls.note(failed)
	}
	return failed
}

// Reason is the kind of a failure, in one word for machines.
type Reason string

// The reasons of an Error.
const (
	// ReasonUnreachable: there is no answer, because of the network, the name service or TLS.
	ReasonUnreachable Reason = "HookUnreachable"
	// ReasonTimeout: there was no whole answer in time.
	ReasonTimeout Reason = "HTTPHookTimeout"
	// ReasonFailed: the hook has answered with an error.
	ReasonFailed Reason = "HTTPHookFailed"
	// ReasonPermanentError: the hook has answered with an error that another call cannot change.
	ReasonPermanentError Reason = "HookPermanentError"
	// ReasonContractViolation: the answer is none of the Hooks API, or changes more than a hook may.
	ReasonContractViolation Reason = "HookContractViolation"
	// ReasonRequestTooLarge: the item and its children are more than a hook is asked about.
	ReasonRequestTooLarge Reason = "HookRequestTooLarge"
)

// Error is a failed call of a hook.
type Error struct {
	// Registration is the name of the DeployerRegistration.
	Registration string
	// Phase of the call.
	Phase v1alpha1.HookCapability
	// URL of the call, without the query.
	URL string
	// Code is the HTTP status of the answer; zero without an answer.
	Code int
	// Reason is for callers to branch on, beside Permanent and Continue.
	Reason Reason
	// Message describes the failure, in the words of the hook if it has given any. It is bounded, and without control
	// characters.
	Message string
	// Permanent: asking again makes no sense until something is changed. Never together with Continue.
	Permanent bool
	// Continue: the hook wants the reconcile or the deletion to go on as if it had not been asked.
	Continue bool
}

// Error names the registration, the phase and the address.
func (e *Error) Error() string {
	return fmt.Sprintf("hook of DeployerRegistration %q (%s, POST %s): %s", e.Registration, e.Phase, e.URL, e.Message)
}
