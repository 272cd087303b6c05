package httphook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The schemes of addresses.
const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
)

// AddressError says why an address resolves to no URL.
type AddressError struct {
	// Field of the address: uri, ref or a field of ref; empty for the address as a whole.
	Field string
	// Message says what was found and what to do.
	Message string
	// Missing: something is not there yet, and may come without a change of the address. Otherwise the address must be changed, or
	// the object that it names.
	Missing bool
	// Err is the answer of the API server if that was the cause, otherwise nil.
	Err error
}

// Error names the field.
func (e *AddressError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Unwrap returns Err.
func (e *AddressError) Unwrap() error { return e.Err }

// Resolve returns the URL of an address, of scheme http or https and with a host. A Service of clusterDomain, such as cluster.local,
// has the URL http://<name>.<namespace>.svc.<clusterDomain>; every other object has that of its status.address.url. reader reads
// Services, and others as *unstructured.Unstructured; if it is a client.Client it can tell a kind without namespaces.
//
// What is wrong with the address is returned as an *AddressError; another failure of reader is returned wrapped.
func Resolve(ctx context.Context, reader client.Reader, address v1alpha1.HookAddress, clusterDomain string) (*url.URL, error) {
	uri, err := parseURI(address)
	if err != nil {
		return nil, err
	}
	if address.Ref == nil {
		return uri, nil
	}
	base, err := resolveReference(ctx, reader, *address.Ref, clusterDomain)
	if err != nil || uri == nil {
		return base, err
	}
	return combine(base, uri), nil
}

// parseURI reads the URI of an address and checks it against the rest; nil if there is none, but a reference. The error is an
// *AddressError.
func parseURI(address v1alpha1.HookAddress) (*url.URL, error) {
	wrong := func(format string, args ...any) (*url.URL, error) {
		return nil, &AddressError{Field: "uri", Message: fmt.Sprintf(format, args...)}
	}
	if address.URI == "" {
		if address.Ref == nil {
			return nil, &AddressError{Message: "expected uri, ref or both, but found neither"}
		}
		return nil, nil //nolint:nilnil // an address may have no URI
	}
	uri, err := parseURL(address.URI)
	switch {
	case err != nil:
		return wrong("%s", err)
	case address.Ref == nil && (uri.Scheme == "" || uri.Hostname() == ""):
		return wrong("expected an absolute URI that names a host, such as https://hooks.example.org/v1, as there is no ref, but found %s", quoted(shown(uri)))
	case address.Ref != nil && uri.Hostname() != "":
		return wrong("expected no host, as the ref says it, but found %s: write only scheme, port and path, such as http://:8080/v1", quoted(uri.Hostname()))
	}
	return uri, nil
}

// parseURL reads a URL, absolute or not. What it accepts may have a scheme, a host, a port, a path and a query, and nothing else. The
// error says what was expected and found, and holds no password.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil { // which repeats the text, and with it what may be a password
		return nil, errors.New("expected a URI of scheme http or https, but found one that cannot be read")
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	return u, nil
}

func checkURL(u *url.URL) error {
	switch {
	case u.User != nil:
		return errors.New("expected a URI without user and password: put them into a secret, and name it in auth")
	case u.Scheme != "" && u.Scheme != schemeHTTP && u.Scheme != schemeHTTPS:
		return fmt.Errorf("expected the scheme http or https, but found %s", quoted(u.Scheme))
	case u.Opaque != "" || u.Path != "" && !strings.HasPrefix(u.Path, "/"):
		return fmt.Errorf("expected a path that begins with /, but found %s", quoted(cmp.Or(u.Opaque, u.Path)))
	case !portIsValid(u.Port()):
		return fmt.Errorf("expected a port from 1 to 65535, but found %s", quoted(u.Port()))
	case u.Fragment != "":
		return errors.New("expected a URI without a fragment, as none is sent: remove # and what follows")
	}
	return nil
}

func portIsValid(port string) bool {
	if port == "" {
		return true
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// combine replaces the parts of a URL by those that a URI has.
func combine(base, uri *url.URL) *url.URL {
	out := *base
	out.Scheme = cmp.Or(uri.Scheme, base.Scheme)
	if port := uri.Port(); port != "" {
		out.Host = net.JoinHostPort(base.Hostname(), port)
	}
	if uri.Path != "" {
		out.Path, out.RawPath = uri.Path, uri.RawPath
	}
	out.RawQuery = cmp.Or(uri.RawQuery, base.RawQuery)
	return &out
}

func resolveReference(ctx context.Context, reader client.Reader, ref v1alpha1.HookReference, clusterDomain string) (*url.URL, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Version == "" || ref.Kind == "" || ref.Name == "" {
		return nil, &AddressError{Field: "ref", Message: fmt.Sprintf(
			"expected apiVersion, kind and name of an object, but found %s, %s and %s", quoted(ref.APIVersion), quoted(ref.Kind), quoted(ref.Name))}
	}
	if isService(ref) {
		return resolveService(ctx, reader, ref, clusterDomain)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gv.WithKind(ref.Kind))
	if err := checkScope(reader, object, ref); err != nil {
		return nil, err
	}
	if err := get(ctx, reader, ref, object); err != nil {
		return nil, err
	}
	return publishedURL(object, ref)
}

// resolveService returns the URL of a Service, which is there in the cluster's name service as soon as the Service is.
func resolveService(ctx context.Context, reader client.Reader, ref v1alpha1.HookReference, clusterDomain string) (*url.URL, error) {
	if ref.Namespace == "" {
		return nil, needsNamespace(ref)
	}
	if err := get(ctx, reader, ref, &corev1.Service{}); err != nil {
		return nil, err
	}
	return &url.URL{Scheme: schemeHTTP, Host: fmt.Sprintf("%s.%s.svc.%s", ref.Name, ref.Namespace, clusterDomain)}, nil
}

// checkScope tells a namespace that is missing or too much, if the reader knows the kind.
func checkScope(reader client.Reader, object *unstructured.Unstructured, ref v1alpha1.HookReference) error {
	scopes, ok := reader.(interface {
		IsObjectNamespaced(object runtime.Object) (bool, error)
	})
	if !ok {
		return nil
	}
	namespaced, err := scopes.IsObjectNamespaced(object)
	switch {
	case err != nil:
		return notRead(ref, err)
	case namespaced && ref.Namespace == "":
		return needsNamespace(ref)
	case !namespaced && ref.Namespace != "":
		return &AddressError{Field: "ref.namespace", Message: fmt.Sprintf(
			"expected none, as the kind %s has no namespaces, but found %s: remove it", ref.Kind, quoted(ref.Namespace))}
	}
	return nil
}

func get(ctx context.Context, reader client.Reader, ref v1alpha1.HookReference, object client.Object) error {
	if err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object); err != nil {
		return notRead(ref, err)
	}
	return nil
}

// notRead is the error for an object that could not be read.
func notRead(ref v1alpha1.HookReference, err error) error {
	missing := func(field, message string) error {
		return &AddressError{Field: field, Message: message, Missing: true, Err: err}
	}
	switch {
	case meta.IsNoMatchError(err):
		return missing("ref.kind", fmt.Sprintf("the cluster has no kind %s of %s: install it, or correct apiVersion and kind", quoted(ref.Kind), quoted(ref.APIVersion)))
	case apierrors.IsNotFound(err):
		return missing("ref.name", fmt.Sprintf("there is no %s: create it, or correct the ref", described(ref)))
	case apierrors.IsForbidden(err):
		return missing("ref", fmt.Sprintf("the host may not read the %s: allow its service account to get and watch the kind", described(ref)))
	}
	return fmt.Errorf("read %s of a hook's address: %w", described(ref), err)
}

func needsNamespace(ref v1alpha1.HookReference) error {
	return &AddressError{Field: "ref.namespace", Message: fmt.Sprintf("expected the namespace of the %s, but found none", described(ref))}
}

// publishedURL returns the URL that an object has in its status.
func publishedURL(object *unstructured.Unstructured, ref v1alpha1.HookReference) (*url.URL, error) {
	text, found, err := unstructured.NestedString(object.Object, "status", "address", "url")
	switch {
	case err != nil:
		return nil, &AddressError{Field: "ref", Message: fmt.Sprintf("expected a text as .status.address.url of the %s, but found something else", described(ref))}
	case !found || text == "":
		return nil, &AddressError{Field: "ref", Missing: true, Message: fmt.Sprintf("the %s has no .status.address.url yet, by which it would say where it is", described(ref))}
	}
	u, err := parseAbsolute(text)
	if err != nil {
		return nil, &AddressError{Field: "ref", Message: fmt.Sprintf(".status.address.url of the %s: %s", described(ref), err)}
	}
	return u, nil
}

// parseAbsolute is parseURL for one that stands alone.
func parseAbsolute(text string) (*url.URL, error) {
	const expected = "expected an absolute URL that names a host, such as https://hooks.example.org/v1, but found "
	u, err := url.Parse(text)
	switch {
	case err != nil: // which repeats the text, and with it what may be a password
		return nil, errors.New(expected + "one that cannot be read")
	case u.Scheme == "" || u.Hostname() == "":
		return nil, errors.New(expected + quoted(shown(u)))
	}
	if err := checkURL(u); err != nil {
		return nil, err
	}
	return u, nil
}

// isService tells whether a reference is to a Service of Kubernetes itself.
func isService(ref v1alpha1.HookReference) bool {
	return ref.APIVersion == "v1" && ref.Kind == "Service"
}

func described(ref v1alpha1.HookReference) string {
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + name
	}
	return ref.Kind + " " + quoted(name)
}

// shown is a URL for users: neither a query nor a user, which may be secrets.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
