package telemetry

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Transport reports each request to an API server with the context of a reconcile, and passes it to next.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next: next} }

type transport struct {
	next http.RoundTripper
}

var _ http.RoundTripper = (*transport)(nil)

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if reconcileOf(request.Context()) == nil {
		return t.next.RoundTrip(request)
	}
	ctx, end := Begin(request.Context(), Work{Of: KindRequest, Name: request.Method + " " + resourceOf(request.URL.Path)})
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		end(ResultError)
		return nil, err
	}
	end(strconv.Itoa(response.StatusCode))
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport below, such as to close its connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// resourceOf is the resource in a path of the API, with its subresource if there is one, such as
// "deployitems/status". It is "other" for a path without one.
func resourceOf(path string) string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	root := slices.IndexFunc(segments, func(s string) bool { return s == "api" || s == "apis" })
	if root < 0 {
		return "other"
	}
	skip := map[string]int{"api": 2, "apis": 3}[segments[root]] // the version; group and version
	rest := segments[min(root+skip, len(segments)):]
	if len(rest) > 2 && rest[0] == "namespaces" && rest[2] != "status" && rest[2] != "finalize" {
		rest = rest[2:]
	}
	switch {
	case len(rest) == 0 || rest[0] == "":
		return "other"
	case len(rest) > 2:
		return rest[0] + "/" + rest[2]
	default:
		return rest[0]
	}
}
