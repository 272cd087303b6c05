package httphook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The schemes of addresses.
const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
)

const (
	// defaultTimeout of one request, from its first byte to the last one of the answer.
	defaultTimeout = 15 * time.Second
	// maxTimeout is the longest timeout of a registration.
	maxTimeout = 10 * time.Minute
)

// parseTimeout reads an ISO 8601 duration of hours, minutes and seconds, above zero and at most maxTimeout. Empty
// stands for defaultTimeout. The CRD's schema is stricter about the form.
func parseTimeout(text string) (time.Duration, error) {
	if text == "" {
		return defaultTimeout, nil
	}
	parts, found := strings.CutPrefix(text, "PT")
	timeout, err := time.ParseDuration(strings.ToLower(parts))
	if !found || err != nil || timeout <= 0 || timeout > maxTimeout {
		return 0, fmt.Errorf("expected an ISO 8601 duration of hours, minutes and seconds, above zero and at most PT10M, "+
			"such as PT15S, but found %.64q", text)
	}
	return timeout, nil
}

// parseURL reads a URL of scheme http or https, absolute or not, without a user. Whether it must be absolute, the CRD
// says. The error holds no password.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	// The error repeats the text, and maybe a password in it.
	case err != nil:
		return nil, errors.New("expected a URI of scheme http or https, but found one that cannot be read")
	case u.User != nil:
		return nil, errors.New("expected a URI without user and password: put them into a secret, and name it in auth")
	case u.Scheme != "" && u.Scheme != schemeHTTP && u.Scheme != schemeHTTPS:
		return nil, fmt.Errorf("expected the scheme http or https, but found %.64q", u.Scheme)
	}
	return u, nil
}

// resolve returns the URL of the object of an address, with the parts of its URI replaced; the CRD lets the URI have no
// host. A Service of clusterDomain, such as cluster.local, has the URL http://<name>.<namespace>.svc.<clusterDomain>;
// every other object has that of its status.address.url.
func resolve(
	ctx context.Context, live client.Reader, ref v1alpha1.HookReference, uri *url.URL, clusterDomain string,
) (*url.URL, error) {
	name := fmt.Sprintf("the %s %q in namespace %q", ref.Kind, ref.Name, ref.Namespace)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	if err := live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	if ref.APIVersion == "v1" && ref.Kind == "Service" {
		host := fmt.Sprintf("%s.%s.svc.%s", ref.Name, ref.Namespace, clusterDomain)
		return combine(&url.URL{Scheme: schemeHTTP, Host: host}, uri), nil
	}
	text, _, err := unstructured.NestedString(object.Object, "status", "address", "url")
	var base *url.URL
	switch {
	case err != nil:
		err = errors.New("expected a text, but found something else")
	case text == "":
		err = errors.New("is not set yet")
	default:
		base, err = parseURL(text)
	}
	if err == nil && (base.Scheme == "" || base.Hostname() == "") {
		err = fmt.Errorf("expected an absolute URL that names a host, such as https://hooks.example.org/v1, but found %.64q",
			shown(base))
	}
	if err != nil {
		return nil, fmt.Errorf(".status.address.url of %s: %w", name, err)
	}
	return combine(base, uri), nil
}

// combine replaces parts of a URL by those of a URI.
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

// shown is a URL for users: without query and user, because they may be secrets.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
