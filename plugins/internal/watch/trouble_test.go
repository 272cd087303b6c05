package watch

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestForbidden may watch ConfigMaps and not Secrets, until it is allowed.
func TestForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	access, _ := w.ServiceAccount("watcher", mayWatch("configmaps"))
	w.client = w.Client(access)
	w.create(configMaps, "o", labels)
	w.create(secrets, "o", labels)
	w.run()
	w.follow("allowed", w.seen(configMaps, "o"))
	w.follow("forbidden", w.seen(secrets, "o"))
	w.Eventually("an attempt", func() bool {
		return slices.ContainsFunc(w.Requests.Steps(), func(step string) bool { return strings.Contains(step, "secrets") })
	})
	w.touch(secrets, "o")
	w.touch(configMaps, "o")
	w.mustWake("allowed")

	_, before := w.counts()
	time.Sleep(time.Second)
	// On a slow machine there are even fewer.
	if _, after := w.counts(); after-before > 6 {
		t.Errorf("expected a few attempts in a second, but found %d", after-before)
	}
	w.mustNotHaveWoken()
	w.Allow("watcher", "secrets", mayWatch("secrets"))
	w.mustWake("forbidden")
}

func mayWatch(resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}
}

// brokenWorld has two items that follow an object each, "changed" and "deleted", by way of a proxy. Its time is that
// of reconnections only. While the connections are broken, it does as the names say.
func brokenWorld(t *testing.T) (w *world, whileBroken func()) {
	t.Helper()
	p := newProxy(t)
	w = newWorldOn(t, p.config(), withClock(clocktesting.NewFakeClock(time.Now())))
	w.run()
	for _, name := range []string{"changed", "deleted"} {
		w.create(configMaps, name, labels)
		w.follow(name, w.seen(configMaps, name))
	}
	w.waitForSync(1)
	return w, func() {
		p.down()
		w.touch(configMaps, "changed")
		w.Delete(configMaps.Resource, "deleted")
		w.mustNotHaveWoken()
		p.up()
	}
}

// TestServerAway has the API server restart while objects change and go.
func TestServerAway(t *testing.T) {
	t.Parallel()
	w, whileBroken := brokenWorld(t)
	whileBroken()
	w.mustWakeAll("changed", "deleted")
}

// TestExpiredResourceVersion makes the target forget what the watch has seen last.
func TestExpiredResourceVersion(t *testing.T) {
	t.Parallel()
	const expired = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old",` +
		`"reason":"Expired","code":410}`
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"the watch is refused":                          {http.StatusGone, expired},
		"the watch begins, and then ends with an error": {http.StatusOK, `{"type":"ERROR","object":` + expired + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, whileBroken := brokenWorld(t)
			answered := make(chan struct{})
			var once atomic.Bool
			w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("watch") != "true" || once.Swap(true) {
					return nil, nil
				}
				defer close(answered)
				return answer(r, c.status, c.body), nil
			})
			whileBroken()
			<-answered
			w.mustWakeAll("changed", "deleted")
		})
	}
}

func answer(r *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

// TestOlderServer does not know how to begin a watch with all objects that there are.
func TestOlderServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("sendInitialEvents") == "" {
			return nil, nil
		}
		return answer(r, http.StatusUnprocessableEntity,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden",`+
				`"reason":"Invalid","code":422}`), nil
	})
	w.create(configMaps, "o", labels)
	w.create(configMaps, "unlabelled", nil)
	w.run()
	w.follow("item", w.seen(configMaps, "o"))
	w.follow("other", w.seen(configMaps, "unlabelled"))
	w.waitForSync(2)
	w.mustNotHaveWoken()
	w.touch(configMaps, "o")
	w.mustWake("item")
	w.Delete(configMaps.Resource, "unlabelled")
	w.mustWake("other")
}
