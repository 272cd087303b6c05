package target

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestRedirects: whoever answers for a target does not get its credentials sent to somebody else.
// Rule (SECURITY.md#owners-of-target-clusters): Credentials of a Target go nowhere but to its server.
func TestRedirects(t *testing.T) {
	t.Parallel()
	elsewhere := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request with %q has left the target", r.Header.Get("Authorization"))
	})
	plain, secure := httptest.NewServer(elsewhere), httptest.NewTLSServer(elsewhere)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	target := httptest.NewUnstartedServer(nil)
	target.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("expected the credentials of the Target, but found %q", r.Header.Get("Authorization"))
		}
		to := map[string]string{
			"moved": "/api/v1/namespaces/ns/configmaps/here", "plain": plain.URL, "secure": secure.URL, "unencrypted": "http://" + r.Host + "/here",
		}[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
		if to == "" {
			answerObject(w)
			return
		}
		http.Redirect(w, r, to, http.StatusTemporaryRedirect)
	})
	target.StartTLS()
	t.Cleanup(target.Close)
	client := mustGet(t, NewCache("test"), target.URL)
	if err := get(t.Context(), client, "moved"); err != nil {
		t.Errorf("a target may move its own objects, but found %v", err)
	}
	for name, to := range map[string]string{"plain": plain.URL, "secure": secure.URL, "unencrypted": strings.Replace(target.URL, "https:", "http:", 1)} {
		if err := get(t.Context(), client, name); err == nil || !strings.Contains(err.Error(), "redirects to "+to+", where") {
			t.Errorf("%s: expected to hear of %s, but found %v", name, to, err)
		}
	}
}

func TestCheckServer(t *testing.T) {
	t.Parallel()
	server := &url.URL{Scheme: "https", Host: "a.example.org:6443", Path: "/k8s"}
	for address, right := range map[string]bool{
		"https://a.example.org:6443/k8s/api": true, "https://a.example.org:6443/": true, "http://a.example.org:6443/k8s": false, "https://a.example.org/k8s": false,
		"https://b.example.org:6443/k8s": false, "https://a.example.org.b.example.org:6443/": false,
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err := CheckServer(req, server); (err == nil) != right {
			t.Errorf("%s: found %v", address, err)
		}
	}
}
