package httphook

import (
	"context"
	"crypto/tls"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// readTimeout bounds the delay of the others by one registration while the API server does not answer.
	readTimeout = 10 * time.Second
	// maxStatus bounds the message about a registration, in bytes.
	maxStatus = 4096
)

// The reasons why a hook cannot be called, or a registration is not ready.
const (
	// reasonStarting: the registrations are not known yet.
	reasonStarting = "Starting"
	// reasonInvalid: the spec is wrong. The message names each field.
	reasonInvalid = "Invalid"
	// reasonTypeTaken: an older registration has a hook for one of the types.
	reasonTypeTaken = "TypeTaken"
	// reasonAddressNotResolved: the object of the address is missing, or has no usable URL.
	reasonAddressNotResolved = "AddressNotResolved"
	// reasonSecretNotFound: a secret is not there.
	reasonSecretNotFound = "SecretNotFound"
	// reasonSecretInvalid: a secret lacks a key, or has an unusable one.
	reasonSecretInvalid = "SecretInvalid"
	// reasonSecretUnreadable: the API server did not give a secret out.
	reasonSecretUnreadable = "SecretUnreadable"
	// reasonNoDeployer: no plugin serves one of the types.
	reasonNoDeployer = "NoDeployer"
)

// NotReadyError says that the hook of a type cannot be called at present.
type NotReadyError struct {
	// Registration is the name of the DeployerRegistration; empty with reasonStarting.
	Registration string
	// Reason is one of the constants.
	Reason string
	// Message is a sentence for people, without secrets.
	Message string
	// Capabilities are those of the hook; see Concerns.
	Capabilities []v1alpha1.HookCapability
}

// Error implements error.
func (e *NotReadyError) Error() string {
	if e.Registration == "" {
		return "HTTP hooks are not ready: " + e.Message
	}
	return fmt.Sprintf("the HTTP hook of DeployerRegistration %q is not ready: %s", e.Registration, e.Message)
}

// Concerns reports whether the hook is, or may be, called in a phase. An unknown or invalid one may be.
func (e *NotReadyError) Concerns(phase v1alpha1.HookCapability) bool {
	return e.Reason == reasonStarting || e.Reason == reasonInvalid || slices.Contains(e.Capabilities, phase)
}

// inputs are all inputs of a hook. Equal inputs make equal hooks.
type inputs struct {
	spec      *v1alpha1.Hook
	url       string
	tls, auth map[string][]byte
}

// problem is why the hook of an entry cannot be called.
func (e *entry) problem() *NotReadyError {
	return &NotReadyError{
		Registration: e.name, Reason: e.faults[0].reason, Message: e.faults.String(),
		Capabilities: e.inputs.spec.Capabilities,
	}
}

// prepare makes the hook of a registration. With the inputs of before it is the same hook, with its connections.
func (r *Registrations) prepare(
	ctx context.Context, registration *v1alpha1.DeployerRegistration, before *entry,
) *entry {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	options, in, wrong := r.read(ctx, registration)
	if before != nil && reflect.DeepEqual(before.inputs, in) && reflect.DeepEqual(before.faults, wrong) {
		return before
	}
	made := &entry{name: registration.Name, inputs: in, faults: wrong}
	if len(wrong) == 0 {
		made.hook = New(options)
	}
	return made
}

// read reads all inputs of a registration's hook, and returns all faults.
func (r *Registrations) read(
	ctx context.Context, registration *v1alpha1.DeployerRegistration,
) (Options, inputs, faults) {
	spec := registration.Spec.Hook
	in := inputs{spec: spec}
	options := Options{
		Registration: registration.Name, Capabilities: spec.Capabilities, FormFactor: spec.FormFactor,
		Version: r.options.Version, Metrics: r.options.Metrics,
	}
	for _, condition := range spec.ConditionsFromHook {
		options.Conditions = append(options.Conditions, condition.Type)
	}
	var all faults
	var err error
	// A newer definition has other versions.
	if spec.Version != v1alpha1.HookVersionV1 {
		all.add(reasonInvalid, "spec.hook.version: ",
			fmt.Errorf("expected %q, but found %q", v1alpha1.HookVersionV1, spec.Version))
	}
	options.Timeout, err = parseTimeout(spec.Timeout)
	all.add(reasonInvalid, "spec.hook.timeout: ", err)
	uri, err := parseURL(spec.Address.URI)
	all.add(reasonInvalid, "spec.hook.address.uri: ", err)
	if err == nil && spec.Address.Ref != nil {
		uri, err = resolve(ctx, r.live, *spec.Address.Ref, uri, r.options.ClusterDomain)
		all.add(reasonAddressNotResolved, "spec.hook.address.ref: ", err)
	}
	if err == nil {
		options.URL, in.url = uri, uri.String()
		if uri.Scheme != schemeHTTPS && (spec.TLS != nil || spec.Auth != nil) {
			all.add(reasonAddressNotResolved, "spec.hook.address: ", fmt.Errorf("auth and tls need an address of scheme "+
				"https, as credentials are not sent unencrypted, but found %.64q", shown(uri)))
		}
	}
	if spec.TLS != nil {
		options.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: spec.TLS.ServerName}
		if ref := spec.TLS.SecretRef; ref != nil {
			in.tls = r.secret(ctx, *ref, "spec.hook.tls.secretRef: ", &all, func(data map[string][]byte) error {
				return addTLS(options.TLS, data)
			})
		}
	}
	if spec.Auth != nil {
		in.auth = r.secret(ctx, spec.Auth.SecretRef, "spec.hook.auth.secretRef: ", &all,
			func(data map[string][]byte) (err error) {
				options.Authorization, err = authorization(data)
				return err
			})
	}
	return options, in, all
}

// secret reads a secret named by a field, has its data used, and returns them. Faults are added to wrong.
func (r *Registrations) secret(
	ctx context.Context, ref v1alpha1.NamespacedSecretReference, field string, wrong *faults,
	use func(data map[string][]byte) error,
) map[string][]byte {
	name := fmt.Sprintf("secret %q in namespace %q", ref.Name, ref.Namespace)
	secret := &corev1.Secret{}
	err := r.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		wrong.add(reasonSecretNotFound, field, fmt.Errorf("there is no %s; create it", name))
	case err != nil:
		wrong.add(reasonSecretUnreadable, field, fmt.Errorf("%s cannot be read: %w", name, err))
	default:
		if err := use(secret.Data); err != nil {
			wrong.add(reasonSecretInvalid, field, fmt.Errorf("%s: %w", name, err))
		}
	}
	return secret.Data
}

// faults are the faults of a hook. The first gives the reason.
type faults []fault

type fault struct{ reason, message string }

// add adds an error of a field; nil is none.
func (f *faults) add(reason, field string, err error) {
	if err != nil {
		*f = append(*f, fault{reason: reason, message: field + err.Error()})
	}
}

func (f faults) String() string {
	var messages []string
	for _, one := range f {
		messages = append(messages, one.message)
	}
	return clean(strings.Join(messages, "; "), maxStatus)
}
