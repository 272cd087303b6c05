package helm3

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestRedirects: Helm's requests have the credentials of the Target, and go nowhere but to its server.
func TestRedirects(t *testing.T) {
	t.Parallel()
	sent := func(r *http.Request) (*http.Response, error) {
		if r.URL.Host != "target.example.org" {
			t.Errorf("a request has left the target, to %s", r.URL)
		}
		answer := httptest.NewRecorder()
		http.Redirect(answer, r, map[string]string{"/a": "/b", "/c": "https://elsewhere.example.org/"}[r.URL.Path], http.StatusFound)
		if r.URL.Path == "/b" {
			answer = httptest.NewRecorder()
		}
		return answer.Result(), nil
	}
	client := &http.Client{Transport: &transport{
		ctx: context.Background(), server: &url.URL{Scheme: "https", Host: "target.example.org"}, next: roundTripper(sent),
		hide: func(text string) string { return text }, warn: func(string, string) {},
	}}
	for path, want := range map[string]string{"/a": "", "/c": "redirects to https://elsewhere.example.org, where the credentials of the Target are not sent"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://target.example.org"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err == nil {
			_ = res.Body.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: expected %q, but found %v", path, want, err)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
