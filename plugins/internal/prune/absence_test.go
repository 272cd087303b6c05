package prune_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// TestDiscoveryIsNoProof: an answer of the discovery that lacks a kind, as that of an API server which has just started
// or which refuses it, does not end an entry.
// Rule (manifest.md#deletion): A kind missing in the discovery is no proof of the end of its objects.
func TestDiscoveryIsNoProof(t *testing.T) {
	t.Parallel()
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for name, c := range map[string]struct {
		reason, contentType, body string
		status                    int
		all                       bool // the objects are not managed, but those of a group that deletes all
	}{
		"group is missing": {
			reason: "it is registered a moment later", status: http.StatusOK, contentType: aggregated,
			body: `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[]}`,
		},
		"refused": {
			reason: "the credentials may not read it", status: http.StatusForbidden, contentType: "application/json",
			body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`,
		},
		"group that deletes all": {
			reason: "what is listed is not there yet", status: http.StatusOK, contentType: aggregated, all: true,
			body: `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			_, resource := w.crd("Relic")
			managed := w.create(resource, w.Namespace, "data", map[string]any{"kind": "Relic"})
			groups := ""
			if c.all {
				managed = w.configMap("managed")
				groups = `[{"customResourceGroup":{"deleteAllResources":true,"resources":[{"apiVersion":"` +
					resource.GroupVersion().String() + `","kind":"Relic"},{"apiVersion":"v1","kind":"ConfigMap","namespaces":["` +
					w.Namespace + `"]}]}}]`
			}
			asked := 0
			targets := target.NewCache("test", target.WrapTransport(func(next http.RoundTripper) http.RoundTripper {
				return plugintest.RoundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != "/apis" {
						return next.RoundTrip(r)
					}
					if asked++; asked > 1 {
						return next.RoundTrip(r)
					}
					return &http.Response{
						StatusCode: c.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
						Header: http.Header{"Content-Type": {c.contentType}}, Body: io.NopCloser(strings.NewReader(c.body)),
					}, nil
				})
			}))
			var err error
			if w.client, err = targets.Get(w.Kubeconfig(plugintest.Config())); err != nil {
				t.Fatal(err)
			}
			first, err := w.run(w.deletion(groups, managed))
			if told := err != nil || len(first.Waiting) == 1; !told || len(first.Gone) > 0 && !c.all {
				t.Errorf("%s: expected the deletion to wait, but found %+v, error %v", c.reason, first, err)
			}
			w.mustFinish(w.deletion(groups, managed))
			if names := w.remaining(resource); len(names) > 0 {
				t.Errorf("%s: expected the objects to be deleted, but found %q", c.reason, names)
			}
		})
	}
}
