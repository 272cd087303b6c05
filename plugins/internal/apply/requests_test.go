package apply_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// mustRequest checks the requests since the last check.
func (w *world) mustRequest(want ...string) {
	w.Helper()
	if got := w.requests.take(); !slices.Equal(got, want) {
		w.Errorf("expected the requests %v, but found %v", want, got)
	}
}

// mustRequestInAnyOrder is mustRequest for several objects, which are worked on side by side.
func (w *world) mustRequestInAnyOrder(want ...string) {
	w.Helper()
	got := slices.Sorted(slices.Values(w.requests.take()))
	if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		w.Errorf("expected the requests %v in any order, but found %v", want, got)
	}
}

// mustBeDry checks that the requests since the last check change nothing, apart from those that are refused.
func (w *world) mustBeDry(refused ...string) {
	w.Helper()
	for _, request := range w.requests.take() {
		if request != "GET" && !strings.HasPrefix(request, "dry ") && !slices.Contains(refused, request) {
			w.Errorf("expected no write, but found %s", request)
		}
	}
}

// requestLog notes the requests to the target apart from discovery, as their methods, with "dry" for those that change nothing.
type requestLog struct {
	mu  sync.Mutex
	all []string
	// before is called with each request, and may answer it instead of the API server; after may lose its answer.
	before func(*http.Request) (*http.Response, error)
	after  func(*http.Request) error
	// discovered is called with each request for the kinds.
	discovered func()
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/api" || r.URL.Path == "/apis" {
			l.discover()
			return next.RoundTrip(r)
		}
		l.mu.Lock()
		entry := r.Method
		if r.URL.Query().Get("dryRun") != "" {
			entry = "dry " + entry
		}
		l.all = append(l.all, entry)
		before, after := l.before, l.after
		l.mu.Unlock()
		if before != nil {
			if response, err := before(r); response != nil || err != nil {
				return response, err
			}
		}
		response, err := next.RoundTrip(r)
		if err == nil && after != nil {
			if err := after(r); err != nil {
				_ = response.Body.Close()
				return nil, err
			}
		}
		return response, err
	})
}

// take returns the requests since it was called last.
func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// intercept sets what is called before and after each request; nil for nothing.
func (l *requestLog) intercept(before func(*http.Request) (*http.Response, error), after func(*http.Request) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

// onDiscovery sets what is called with each request for the kinds.
func (l *requestLog) onDiscovery(discovered func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discovered = discovered
}

func (l *requestLog) discover() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.discovered != nil {
		l.discovered()
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
