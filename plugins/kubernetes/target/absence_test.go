package target

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/test/cases"
)

// TestDoubt: a kind that the discovery lacks is gone only by proof.
// Rule (manifest.md#deletion): The end of a kind is proved by definitions, or by time for credentials without access to
// them.
func TestDoubt(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/doubt.yaml", func(t *testing.T, c struct {
		Answers      map[string]string
		First, Later string
	},
	) {
		s := &apiServer{groups: map[string][]metav1.APIResource{"other.org/v1": {{Name: "others", Kind: "Other"}}}}
		client := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, ok := c.Answers[r.URL.Path]
			if !ok {
				s.ServeHTTP(w, r)
				return
			}
			code, body := answerOf(answer)
			if strings.HasPrefix(body, "{") {
				w.Header().Set("Content-Type", "application/json")
			}
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, body)
		}))
		for _, step := range []struct {
			absence time.Duration
			want    string
		}{{time.Hour, c.First}, {0, c.Later}} {
			client.timeouts.absence = step.absence
			doubt, err := client.Doubt(t.Context(), gvk("example.org", "v1", "Relic"), Recorded{Namespace: "ns", Name: "a"})
			if err != nil || (doubt == "") != (step.want == "") || !strings.Contains(doubt, step.want) {
				t.Errorf("expected %q after %s, but found %q, error %v", step.want, step.absence, doubt, err)
			}
		}
	}, "$DEFINITIONS", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"$SERVICES", "/apis/apiregistration.k8s.io/v1/apiservices", "$OBJECT", "/apis/example.org/v1/namespaces/ns/relics/a",
		"$FORBIDDEN", `403 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`,
		"$MISSING", `404 {"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","details":{"name":"a"},`+
			`"code":404}`)
}

// answerOf is the status and the body of an answer, of which lists and definitions have a short form.
func answerOf(answer string) (code int, body string) {
	first, rest, _ := strings.Cut(answer, " ")
	switch first {
	case "$LIST":
		var items []string
		for _, name := range strings.Fields(rest) {
			items = append(items,
				`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"`+name+`"}}`)
		}
		return http.StatusOK, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[` +
			strings.Join(items, ",") + `]}`
	case "$DEFINITION":
		return http.StatusOK, `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",` +
			`"metadata":{"name":"x.example.org"},"spec":{"group":"example.org","names":{"kind":"` + rest + `","plural":"x"}}}`
	}
	code, _ = strconv.Atoi(first)
	return code, rest
}
