package helm

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// point is where a release is struck: at the write of its storage of this number, from 1, before the API server gets it or after it has
// carried it out.
type point struct {
	write    int
	carryOut bool
}

func (p point) String() string {
	return fmt.Sprintf("%s-%d", map[bool]string{false: "before", true: "after"}[p.carryOut], p.write)
}

// storageProxy is between plugin and target. It counts the writes of Helm's storage, and holds those at which releases are to be struck: they
// get no answer.
type storageProxy struct {
	*testing.T

	front *testenv.Proxy
	next  http.Handler

	mu       sync.Mutex
	releases map[string]*watched // by namespace
}

// watched is a release whose storage is watched.
type watched struct {
	point

	writes int
	// held says that the write has come, and abandoned that its sender is gone.
	held, abandoned bool
}

func newStorageProxy(t *testing.T) *storageProxy {
	t.Helper()
	p := &storageProxy{T: t, releases: map[string]*watched{}}
	var err error
	p.front, err = testenv.StartProxy(controlPlane.Config, func(next *httputil.ReverseProxy) http.Handler {
		p.next = next
		return p
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.front.Stop)
	return p
}

// watch begins to count the writes of the release in a namespace, which it strikes at the point; nowhere at its zero value.
func (p *storageProxy) watch(namespace string, at point) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releases[namespace] = &watched{point: at}
}

// writes returns how many there were.
func (p *storageProxy) writes(namespace string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.releases[namespace].writes
}

// without describes the releases that are to be struck and of which something is not so yet; "" if there is none.
func (p *storageProxy) without(is func(*watched) bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var missing []string
	for _, namespace := range slices.Sorted(maps.Keys(p.releases)) {
		if r := p.releases[namespace]; r.write > 0 && !is(r) {
			missing = append(missing, fmt.Sprintf("%s has got to write %d", namespace, r.writes))
		}
	}
	return strings.Join(missing, ", ")
}

func isHeld(r *watched) bool      { return r.held }
func isAbandoned(r *watched) bool { return r.abandoned }

// ServeHTTP implements http.Handler.
func (p *storageProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	struck := p.count(r)
	switch {
	case struck != nil:
		p.hold(struck, r)
		panic(http.ErrAbortHandler) //nolint:forbidigo // closes the connection without an answer
	case r.Method == http.MethodGet:
		p.next.ServeHTTP(w, r)
	default: // what has been sent arrives, whoever has died meanwhile
		testenv.CarryOut(p.next, w, r)
	}
}

// count counts a write of Helm's storage, and returns the release if it is to be struck there.
func (p *storageProxy) count(r *http.Request) *watched {
	path, inNamespace := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	namespace, resource, _ := strings.Cut(path, "/")
	// No chart of these tests has Secrets of its own.
	if !inNamespace || r.Method == http.MethodGet || !strings.HasPrefix(resource, "secrets") {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	release := p.releases[namespace]
	if release == nil {
		return nil
	}
	if release.writes++; release.writes != release.write {
		return nil
	}
	return release
}

// hold keeps a write until whoever has sent it is gone.
func (p *storageProxy) hold(release *watched, r *http.Request) {
	if release.carryOut {
		testenv.CarryOut(p.next, httptest.NewRecorder(), r)
	} else if _, err := io.Copy(io.Discard, r.Body); err != nil { // whether the sender is there is seen only after all it has sent
		p.Errorf("read a write of Helm's storage: %v", err)
	}
	p.mu.Lock()
	release.held = true
	p.mu.Unlock()
	<-r.Context().Done()
	p.mu.Lock()
	release.abandoned = true
	p.mu.Unlock()
}
