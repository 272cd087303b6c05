package target

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestDoubt: a kind that the discovery lacks is gone only by proof.
// Rule (manifest.md#deletion): The end of a kind is proved by definitions, or by time for credentials without access to
// them.
func TestDoubt(t *testing.T) {
	t.Parallel()
	const (
		definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		servicesPath    = "/apis/apiregistration.k8s.io/v1/apiservices"
		objectPath      = "/apis/example.org/v1/namespaces/ns/relics/a"
		forbidden       = `403 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
		unknown         = `404 404 page not found`
		missing         = `404 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound",` +
			`"details":{"name":"a"},"code":404}`
	)
	list := func(names ...string) string {
		var items []string
		for _, name := range names {
			items = append(
				items, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"`+name+`"}}`,
			)
		}
		return `200 {"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[` +
			strings.Join(items, ",") + `]}`
	}
	definition := func(kind string) string {
		return `200 {"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",` +
			`"metadata":{"name":"x.example.org"},` +
			`"spec":{"group":"example.org","names":{"kind":"` + kind + `","plural":"x"}}}`
	}
	for name, c := range map[string]struct {
		reason  string
		answers map[string]string
		// first and later are parts of what is said at once and after a while; empty if there is proof.
		first, later string
	}{
		"not defined": {
			reason: "nothing defines it, and nothing serves its group",
			answers: map[string]string{
				definitionsPath: list("x.other.org", "x.of.example.org"), servicesPath: list("v1.other.org"),
			},
		},
		"another kind of the group": {
			reason: "its definition is of another kind",
			answers: map[string]string{
				definitionsPath: list("x.example.org"), definitionsPath + "/x.example.org": definition("Other"),
				servicesPath: list(),
			},
		},
		"defined": {
			reason: "the API server will serve it",
			answers: map[string]string{
				definitionsPath: list("x.example.org"), definitionsPath + "/x.example.org": definition("Relic"),
			},
			first: "CustomResourceDefinition x.example.org", later: "CustomResourceDefinition x.example.org",
		},
		"aggregated": {
			reason:  "its server is away",
			answers: map[string]string{definitionsPath: list(), servicesPath: list("v1.example.org")},
			first:   "APIService v1.example.org", later: "APIService v1.example.org",
		},
		"definitions not served": {
			reason: "the API server has not begun to", answers: map[string]string{definitionsPath: unknown},
			first: "cannot be read", later: "cannot be read",
		},
		"no rights, ready": {
			reason:  "it is not served for a while",
			answers: map[string]string{definitionsPath: forbidden, objectPath: unknown, "/readyz": "200 ok"},
			first:   "asked again",
		},
		"rights for definitions alone": {
			reason: "an APIService may serve it",
			answers: map[string]string{
				definitionsPath: list(), servicesPath: forbidden, objectPath: unknown, "/readyz": "200 ok",
			},
			first: "asked again",
		},
		"no rights, not ready": {
			reason: "it is starting",
			answers: map[string]string{
				definitionsPath: forbidden, objectPath: unknown, "/readyz": "500 crd-informer-synced failed",
			},
			first: "the API server is not ready", later: "the API server is not ready",
		},
		"no rights, served": {
			reason:  "only the discovery lacks it",
			answers: map[string]string{definitionsPath: forbidden, objectPath: missing, "/readyz": "200 ok"},
			first:   "ask for it as relics.example.org", later: "ask for it as",
		},
		"no rights at all": {
			reason:  "a refusal says nothing about the kind",
			answers: map[string]string{definitionsPath: forbidden, objectPath: forbidden, "/readyz": "200 ok"},
			first:   "ask for it as relics.example.org", later: "ask for it as",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &apiServer{groups: map[string][]metav1.APIResource{"other.org/v1": {{Name: "others", Kind: "Other"}}}}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer, ok := c.answers[r.URL.Path]
				if !ok {
					s.ServeHTTP(w, r)
					return
				}
				status, body, _ := strings.Cut(answer, " ")
				if strings.HasPrefix(body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(map[string]int{"200": 200, "403": 403, "404": 404, "500": 500}[status])
				_, _ = fmt.Fprint(w, body)
			}))
			t.Cleanup(server.Close)
			client, err := NewCache("test").Get(kubeconfigFor(server.URL))
			if err != nil {
				t.Fatal(err)
			}
			kind := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Relic"}
			for _, step := range []struct {
				absence time.Duration
				want    string
			}{{time.Hour, c.first}, {0, c.later}} {
				client.timeouts.absence = step.absence
				doubt, err := client.Doubt(t.Context(), kind, Recorded{Namespace: "ns", Name: "a"})
				if err != nil || (doubt == "") != (step.want == "") || !strings.Contains(doubt, step.want) {
					t.Errorf("%s: expected %q after %s, but found %q, error %v", c.reason, step.want, step.absence, doubt, err)
				}
			}
		})
	}
}
