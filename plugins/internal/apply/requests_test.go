package apply_test

import (
	"slices"
	"strings"
)

// mustRequest checks the requests since the last check.
func (w *world) mustRequest(want ...string) {
	w.Helper()
	if got := w.verbs(); !slices.Equal(got, want) {
		w.Errorf("expected the requests %v, but found %v", want, got)
	}
}

// mustRequestInAnyOrder is mustRequest for several objects, which are worked on side by side.
func (w *world) mustRequestInAnyOrder(want ...string) {
	w.Helper()
	got := slices.Sorted(slices.Values(w.verbs()))
	if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		w.Errorf("expected the requests %v in any order, but found %v", want, got)
	}
}

// mustBeDry checks that the requests since the last check change nothing, apart from those that are refused.
func (w *world) mustBeDry(refused ...string) {
	w.Helper()
	for _, request := range w.verbs() {
		if request != "GET" && !strings.HasPrefix(request, "dry ") && !slices.Contains(refused, request) {
			w.Errorf("expected no write, but found %s", request)
		}
	}
}

// verbs returns the requests since they were asked for last as their methods, with "dry" for those that change nothing.
func (w *world) verbs() []string {
	var verbs []string
	for _, request := range w.Requests.Take() {
		verb, _, _ := strings.Cut(request, " /")
		verbs = append(verbs, verb)
	}
	return verbs
}
