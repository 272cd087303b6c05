package registration

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// readTimeout bounds how long one registration can hold up the others when the API server does not answer.
	readTimeout = 10 * time.Second
	// maxMessage bounds what is said about a registration, in bytes.
	maxMessage = 4096
)

// The keys of secrets that hooks are made of. Others may be in the same secret, and change without a new hook.
var (
	tlsKeys  = []string{corev1.ServiceAccountRootCAKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
	authKeys = []string{"token", corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}
)

// recipe is all that a hook is made of. Equal recipes make equal hooks.
type recipe struct {
	spec *v1alpha1.Hook
	url  *url.URL
	// tls and auth are those entries of the secrets that count; nil without a secret.
	tls, auth map[string][]byte
}

// prepare reads all that the hook of a registration is made of. A problem names everything that is wrong.
func (r *Registry) prepare(ctx context.Context, registration *v1alpha1.DeployerRegistration) (*recipe, *NotReadyError) {
	if problem := invalid(registration); problem != nil {
		return nil, problem
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	spec := registration.Spec.Hook
	made := &recipe{spec: spec.DeepCopy()}
	var faults []fault
	var err error
	if made.url, err = httphook.Resolve(ctx, r.options.Client, spec.Address, r.options.ClusterDomain); err != nil {
		faults = append(faults, addressFault(err))
	} else if (spec.Auth != nil || spec.TLS != nil) && made.url.Scheme != "https" {
		faults = append(faults, unencrypted(spec.Address, made.url))
	}
	if spec.TLS != nil && spec.TLS.SecretRef != nil {
		var f *fault
		if made.tls, f = r.secret(ctx, "spec.hook.tls.secretRef", *spec.TLS.SecretRef, tlsKeys); f != nil {
			faults = append(faults, *f)
		}
	}
	if spec.Auth != nil {
		var f *fault
		if made.auth, f = r.secret(ctx, "spec.hook.auth.secretRef", spec.Auth.SecretRef, authKeys); f != nil {
			faults = append(faults, *f)
		}
	}
	if len(faults) > 0 {
		return nil, problemOf(registration, faults...)
	}
	return made, nil
}

// invalid is what is wrong with the spec itself; nil if nothing is.
func invalid(registration *v1alpha1.DeployerRegistration) *NotReadyError {
	var faults []fault
	for _, err := range httphook.Validate(&registration.Spec) {
		faults = append(faults, fault{reason: ReasonInvalid, err: err})
	}
	if len(faults) == 0 {
		return nil
	}
	return problemOf(registration, faults...)
}

// hook makes a hook.
func (r *Registry) hook(registration *v1alpha1.DeployerRegistration, made *recipe) (*httphook.Hook, *NotReadyError) {
	spec := made.spec
	options := httphook.Options{
		Registration: registration.Name,
		URL:          made.url,
		Capabilities: spec.Capabilities,
		FormFactor:   spec.FormFactor,
		Version:      r.options.Version,
		Metrics:      r.options.Metrics,
	}
	for _, condition := range spec.ConditionsFromHook {
		options.Conditions = append(options.Conditions, condition.Type)
	}
	var faults []fault
	var err error
	if options.Timeout, err = httphook.ParseTimeout(spec.Timeout); err != nil {
		faults = append(faults, fault{reason: ReasonInvalid, field: "spec.hook.timeout", err: err})
	}
	if spec.TLS != nil && spec.TLS.SecretRef != nil && len(made.tls) == 0 { // which must not pass for the authorities of the system
		faults = append(faults, secretFault("spec.hook.tls.secretRef", spec.TLS.SecretRef, fmt.Errorf("expected one of the keys %s, but found none", strings.Join(tlsKeys, ", "))))
	}
	if spec.TLS != nil {
		if options.TLS, err = httphook.TLSConfig(made.tls, spec.TLS.ServerName); err != nil {
			faults = append(faults, secretFault("spec.hook.tls.secretRef", spec.TLS.SecretRef, err))
		}
	}
	if spec.Auth != nil {
		if options.Authorization, err = httphook.Authorization(made.auth); err != nil {
			faults = append(faults, secretFault("spec.hook.auth.secretRef", &spec.Auth.SecretRef, err))
		}
	}
	if len(faults) > 0 {
		return nil, problemOf(registration, faults...)
	}
	hook, err := httphook.New(options)
	if err != nil {
		return nil, problemOf(registration, fault{reason: ReasonInvalid, field: "spec.hook", err: err})
	}
	return hook, nil
}

// secret reads those entries of a secret that count.
func (r *Registry) secret(ctx context.Context, field string, ref v1alpha1.NamespacedSecretReference, keys []string) (map[string][]byte, *fault) {
	secret := &corev1.Secret{}
	err := r.options.Client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, &fault{
			reason: ReasonSecretNotFound, field: field,
			err: fmt.Errorf("there is no secret %q in namespace %q; create it", ref.Name, ref.Namespace),
		}
	}
	if err != nil {
		return nil, &fault{
			reason: ReasonSecretUnreadable, field: field,
			err: fmt.Errorf("secret %q in namespace %q cannot be read: %w", ref.Name, ref.Namespace, err),
		}
	}
	entries := map[string][]byte{}
	for _, key := range keys {
		if value, ok := secret.Data[key]; ok {
			entries[key] = value
		}
	}
	return entries, nil
}

// fault is one thing that is wrong with a hook.
type fault struct {
	reason string
	field  string // empty if err names it
	err    error
}

func addressFault(err error) fault {
	var address *httphook.AddressError
	field := "spec.hook.address"
	if errors.As(err, &address) && address.Field != "" {
		field = "" // which the error goes on with
		err = fmt.Errorf("spec.hook.address.%w", err)
	}
	return fault{reason: ReasonAddressNotResolved, field: field, err: err}
}

// unencrypted is the fault of an address that credentials are not sent to. As the spec alone is valid, it is the URL of the object that
// is referred to.
func unencrypted(address v1alpha1.HookAddress, found *url.URL) fault {
	ref := address.Ref
	return fault{reason: ReasonAddressNotResolved, field: "spec.hook.address.ref", err: fmt.Errorf(
		"auth and tls need https, as credentials are not sent unencrypted, but .status.address.url of the %s %q in namespace %q has the scheme %q; "+
			"have the object publish a URL of scheme https, or add uri: https://, if the server speaks it", ref.Kind, ref.Name, ref.Namespace, found.Scheme)}
}

func secretFault(field string, ref *v1alpha1.NamespacedSecretReference, err error) fault {
	if ref == nil { // there is nothing but the name of the server
		return fault{reason: ReasonInvalid, field: strings.TrimSuffix(field, ".secretRef"), err: err}
	}
	return fault{reason: ReasonSecretInvalid, field: field, err: fmt.Errorf("secret %q in namespace %q: %w", ref.Name, ref.Namespace, err)}
}

// problemOf says everything that is wrong with the hook of a registration. The first fault gives the reason.
func problemOf(registration *v1alpha1.DeployerRegistration, faults ...fault) *NotReadyError {
	var texts []string
	var errs []error
	for _, f := range faults {
		text := f.err.Error()
		if f.field != "" {
			text = f.field + ": " + text
		}
		texts, errs = append(texts, text), append(errs, f.err)
	}
	var capabilities []v1alpha1.HookCapability
	if registration.Spec.Hook != nil {
		capabilities = registration.Spec.Hook.Capabilities
	}
	return &NotReadyError{
		Registration: registration.Name, Capabilities: capabilities, Reason: faults[0].reason, Message: bounded(strings.Join(texts, "; "), maxMessage), Err: errors.Join(errs...),
	}
}
