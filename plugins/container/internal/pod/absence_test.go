package pod

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// TestAbsence: a Pod or a result is missing by the word of the API server, and not by that of a proxy before it.
func TestAbsence(t *testing.T) {
	t.Parallel()
	for body, absent := range map[string]bool{
		"default backend - 404":          false,
		`{"message":"no Route matched"}`: false,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`: true,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, body)
		}))
		defer server.Close()
		client, err := target.NewCache("test").Get(fmt.Appendf(nil, `{"current-context":"c",
			"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":"t"}}],
			"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL))
		if err != nil {
			t.Fatal(err)
		}
		c := &Cluster{Client: client, Namespace: "ns"}
		if p, err := c.Pod(t.Context(), "p"); p != nil || (err == nil) != absent {
			t.Errorf("%s: Pod: expected absence: %t, but found %v, %v", body, absent, p, err)
		}
		if _, err := c.Result(t.Context(), "r"); (err == nil) != absent {
			t.Errorf("%s: result: expected absence: %t, but found %v", body, absent, err)
		}
	}
}
