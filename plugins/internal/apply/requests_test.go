package apply_test

import (
	"net/http"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// mustRequest checks the requests since the last check.
func (w *world) mustRequest(want ...string) {
	w.Helper()
	if got := w.Requests.Verbs(); !slices.Equal(got, want) {
		w.Errorf("expected the requests %v, but found %v", want, got)
	}
}

// mustBeDry checks that the requests since the last check change nothing, apart from those that are refused.
func (w *world) mustBeDry(refused ...string) {
	w.Helper()
	for _, request := range w.Requests.Verbs() {
		if request != "GET" && !strings.HasPrefix(request, "dry ") && !slices.Contains(refused, request) {
			w.Errorf("expected no write, but found %s", request)
		}
	}
}

// refuse has all requests with a method answered as if they were not permitted.
func (w *world) refuse(method string) {
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Method == method {
			return plugintest.Forbidden(r, "no"), nil
		}
		return nil, nil
	})
}
