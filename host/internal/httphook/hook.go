package httphook

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// DefaultTimeout of one request, from its first byte to the last one of the answer.
	DefaultTimeout = 15 * time.Second
	// MaxTimeout is the longest that a registration can choose.
	MaxTimeout = 10 * time.Minute
)

// Options describe a Hook. Registration and URL are required.
type Options struct {
	// Registration is the name of the DeployerRegistration.
	Registration string
	// URL of the server, as Resolve returns it.
	URL *url.URL
	// Timeout of one request. Zero stands for DefaultTimeout.
	Timeout time.Duration
	// Capabilities are the phases in which the hook is called.
	Capabilities []v1alpha1.HookCapability
	// FormFactor is what the server gets as name of the form factor. Empty for what the caller of a phase says.
	FormFactor string
	// Conditions are the types of the conditions that count in answers.
	Conditions []v1alpha1.ConditionType
	// TLS says how to know the server, and with which certificate; see TLSConfig. nil for the authorities of the system. It needs a
	// URL of scheme https, and must not be changed any more.
	TLS *tls.Config
	// Authorization is the value of that header; see Authorization. Empty for none. It needs a URL of scheme https.
	Authorization string
	// Version of the host, for the header User-Agent.
	Version string
	// Metrics count the requests. nil for nobody.
	Metrics *Metrics
}

// Hook is one HTTP hook. It is immutable and may be used concurrently.
type Hook struct {
	registration  string
	url           *url.URL
	timeout       time.Duration
	capabilities  []v1alpha1.HookCapability
	formFactor    string
	conditions    []v1alpha1.ConditionType
	authorization string
	userAgent     string
	metrics       *Metrics
	client        *http.Client
}

// New returns a Hook. It makes no request. The error says what of the options cannot be, and holds no secret of theirs. The caller
// closes the Hook.
func New(o Options) (*Hook, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("hook of DeployerRegistration %q: %w", o.Registration, err)
	}
	address := *o.URL
	h := &Hook{
		registration:  o.Registration,
		url:           &address,
		timeout:       cmp.Or(o.Timeout, DefaultTimeout),
		capabilities:  slices.Clone(o.Capabilities),
		formFactor:    o.FormFactor,
		conditions:    slices.Clone(o.Conditions),
		authorization: o.Authorization,
		userAgent:     userAgent,
		metrics:       o.Metrics,
		client:        newClient(o.TLS.Clone()),
	}
	if o.Version != "" {
		h.userAgent += "/" + o.Version
	}
	return h, nil
}

// userAgent is the name of the host in requests.
const userAgent = "pergola-host"

func (o Options) check() error {
	if o.URL == nil {
		return errors.New("expected a URL, but found none")
	}
	switch u := o.URL; {
	case u.Scheme != schemeHTTP && u.Scheme != schemeHTTPS || u.Hostname() == "" || u.User != nil:
		return fmt.Errorf("expected an absolute URL of scheme http or https, without a user, but found %s", quoted(shown(u)))
	case u.Scheme != schemeHTTPS && (o.TLS != nil || o.Authorization != ""):
		return fmt.Errorf("expected an address of scheme https, as credentials are not sent unencrypted, but found %s", quoted(shown(u)))
	case o.Timeout < 0 || o.Timeout > MaxTimeout:
		return fmt.Errorf("expected a timeout of at most %s, but found %s", MaxTimeout, o.Timeout)
	}
	return nil
}

// Close closes the idle connections. Requests under way are not affected, and further ones are still possible.
func (h *Hook) Close() { h.client.CloseIdleConnections() }

// Registration returns the name of the DeployerRegistration.
func (h *Hook) Registration() string { return h.registration }

// URL returns the address of the server without the query, which may hold a secret.
func (h *Hook) URL() string { return shown(h.url) }

// Has tells whether the hook is called in the phase.
func (h *Hook) Has(phase v1alpha1.HookCapability) bool { return slices.Contains(h.capabilities, phase) }

// Conditions returns the types of the conditions that the hook reports.
func (h *Hook) Conditions() []v1alpha1.ConditionType { return slices.Clone(h.conditions) }

// Answer is what a hook wants.
type Answer struct {
	// Children are all children, in the order of those in the request and with their names; nil if the hook changes none. The object
	// of one that the hook has not changed is, byte for byte, that of the request.
	Children []sdk.Child
	// Conditions are those of the declared types that the hook has reported: type, status, reason and message alone, without times.
	// Each type is there once at most, and a status is True, False or Unknown.
	Conditions []v1alpha1.Condition
}

// PreReconcile asks the hook before the children of an item are applied. formFactor counts if the options have none. item and children
// are not changed. It blocks until the hook has answered, its timeout has passed, or ctx has ended.
//
// The error is an *Error if the hook has failed, wraps ErrChildren, or wraps the cause of the end of ctx.
func (h *Hook) PreReconcile(ctx context.Context, formFactor string, item *v1alpha1.DeployItem, children []sdk.Child) (*Answer, error) {
	sent, err := identify(children)
	if err != nil {
		return nil, err
	}
	objects, err := byKey(sent)
	if err != nil {
		return nil, err
	}
	body, err := h.request(v1alpha1.HookPreReconcile, formFactor, item, objects)
	if err != nil {
		return nil, err
	}
	var answer *Answer
	err = h.exchange(ctx, v1alpha1.HookPreReconcile, body, func(document []byte) (err error) {
		answer, err = readAnswer(document, item, sent, h.conditions)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Finalize asks the hook before an item is deleted. Without an error the hook agrees. Otherwise it is as PreReconcile.
func (h *Hook) Finalize(ctx context.Context, formFactor string, item *v1alpha1.DeployItem) error {
	body, err := h.request(v1alpha1.HookFinalize, formFactor, item, nil)
	if err != nil {
		return err
	}
	return h.exchange(ctx, v1alpha1.HookFinalize, body, func(document []byte) error {
		// What the answer says does not count; but whoever answers with a page is no hook, and has finalized nothing.
		_, err := readResponse(document)
		return err
	})
}

func (h *Hook) request(phase v1alpha1.HookCapability, name string, item *v1alpha1.DeployItem, children map[string]json.RawMessage) ([]byte, error) {
	return request{FormFactor: formFactor{Name: cmp.Or(h.formFactor, name)}, Phase: phase, Object: item, Children: children}.marshal()
}
