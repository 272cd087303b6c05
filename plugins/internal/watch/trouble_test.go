package watch

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// buffer is a writer for several goroutines.
type buffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// TestForbidden may watch ConfigMaps and not Secrets, until it is allowed.
func TestForbidden(t *testing.T) {
	t.Parallel()
	log := &buffer{}
	w := newWorld(t, WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	access, _ := w.ServiceAccount("watcher", mayWatch("configmaps"))
	w.client = w.Client(access)
	w.create(configMaps, "o", labels)
	w.create(secrets, "o", labels)
	w.run()
	w.follow("allowed", w.seen(configMaps, "o"))
	w.follow("forbidden", w.seen(secrets, "o"))
	w.Eventually("the refusal", func() bool { return strings.Contains(log.String(), "secrets is forbidden") })
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

// TestServerAway has the API server restart while objects change and go.
func TestServerAway(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	// The time that passes is that of the reconnection only.
	w := newWorldOn(t, p.config(), WithClock(clocktesting.NewFakeClock(time.Now())))
	w.create(configMaps, "changed", labels)
	w.create(configMaps, "deleted", labels)
	w.run()
	for _, name := range []string{"changed", "deleted"} {
		w.follow(name, w.seen(configMaps, name))
	}
	w.waitForSync(1)
	p.down()
	w.touch(configMaps, "changed")
	w.Delete(configMaps.Resource, "deleted")
	w.mustNotHaveWoken()
	p.up()
	w.mustWakeAll("changed", "deleted")
}

// TestExpiredResourceVersion makes the target forget what the watch has seen last.
func TestExpiredResourceVersion(t *testing.T) {
	t.Parallel()
	const expired = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old",` +
		`"reason":"Expired","code":410}`
	for name, c := range map[string]struct {
		reason string
		status int
		body   string
	}{
		"answer": {reason: "the watch is refused", status: http.StatusGone, body: expired},
		"event": {
			reason: "the watch begins, and then ends with an error", status: http.StatusOK,
			body: `{"type":"ERROR","object":` + expired + `}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t)
			w := newWorldOn(t, p.config(), WithClock(clocktesting.NewFakeClock(time.Now())))
			for _, name := range []string{"changed", "deleted"} {
				w.create(configMaps, name, labels)
			}
			w.run()
			for _, name := range []string{"changed", "deleted"} {
				w.follow(name, w.seen(configMaps, name))
			}
			w.waitForSync(1)
			answered := make(chan struct{})
			var once atomic.Bool
			w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("watch") != "true" || once.Swap(true) {
					return nil, nil
				}
				defer close(answered)
				return answer(r, c.status, c.body), nil
			})
			p.down()
			w.touch(configMaps, "changed")
			w.Delete(configMaps.Resource, "deleted")
			p.up()
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
