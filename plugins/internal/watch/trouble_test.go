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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
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

// TestForbidden may watch ConfigMaps and not Secrets, until somebody allows that.
func TestForbidden(t *testing.T) {
	user, err := environment.AddUser(envtest.User{Name: "watcher"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &buffer{}
	w := newWorldOn(t, user.Config(), WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	w.allow("watcher", "configmaps")
	w.create(configMaps, "o", labels)
	w.create(secrets, "o", labels)
	w.run()
	w.follow("allowed", w.seen(configMaps, "o"))
	w.follow("forbidden", w.seen(secrets, "o"))
	w.waitUntil("the refusal", func() bool { return strings.Contains(log.String(), "secrets is forbidden") })
	w.touch(secrets, "o")
	w.touch(configMaps, "o")
	w.mustWake("allowed")

	_, before := w.requests.counts()
	time.Sleep(time.Second)
	// On a slow machine there are even fewer.
	if _, after := w.requests.counts(); after-before > 6 {
		t.Errorf("expected a few attempts in a second, but found %d", after-before)
	}
	w.mustNotHaveWoken()
	w.allow("watcher", "secrets")
	w.mustWake("forbidden")
}

// allow lets a user list and watch a resource in the test's namespace.
func (w *world) allow(user, resource string) {
	w.Helper()
	for plural, o := range map[string]map[string]any{
		"roles": {
			"kind":  "Role",
			"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{resource}, "verbs": []any{"list", "watch"}}},
		},
		"rolebindings": {
			"kind":     "RoleBinding",
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": resource},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
		},
	} {
		o["apiVersion"] = "rbac.authorization.k8s.io/v1"
		o["metadata"] = map[string]any{"name": resource}
		resources := w.admin.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: plural})
		_, err := resources.Namespace(w.namespace).Create(w.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
		if err != nil {
			w.Fatal(err)
		}
	}
}

func TestBrokenConnection(t *testing.T) {
	p := newProxy(t)
	w := newWorldOn(t, p.config())
	w.create(configMaps, "o", labels)
	w.run()
	w.follow("item", w.seen(configMaps, "o"))
	w.waitForSync(1)
	for range 3 {
		p.breakAll()
		w.mustNotHaveWoken()
		w.touch(configMaps, "o")
		w.mustWake("item")
		w.follow("item", w.seen(configMaps, "o"))
	}
}

// TestServerAway has the API server restart while objects change and go.
func TestServerAway(t *testing.T) {
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
	w.remove(configMaps, "deleted")
	w.mustNotHaveWoken()
	p.up()
	w.mustWakeAll("changed", "deleted")
}

// TestExpiredResourceVersion makes the target forget what the watch has seen last.
func TestExpiredResourceVersion(t *testing.T) {
	const expired = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired","code":410}`
	for name, c := range map[string]struct {
		reason string
		status int
		body   string
	}{
		"answer": {reason: "the watch is refused", status: http.StatusGone, body: expired},
		"event":  {reason: "the watch begins, and then ends with an error", status: http.StatusOK, body: `{"type":"ERROR","object":` + expired + `}`},
	} {
		t.Run(name, func(t *testing.T) {
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
			w.requests.answerWith(func(r *http.Request) *http.Response {
				if r.URL.Query().Get("watch") != "true" || once.Swap(true) {
					return nil
				}
				defer close(answered)
				return answer(r, c.status, c.body)
			})
			p.down()
			w.touch(configMaps, "changed")
			w.remove(configMaps, "deleted")
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
	w := newWorld(t)
	w.requests.answerWith(func(r *http.Request) *http.Response {
		if r.URL.Query().Get("sendInitialEvents") == "" {
			return nil
		}
		return answer(r, http.StatusUnprocessableEntity,
			`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden","reason":"Invalid","code":422}`)
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
	w.remove(configMaps, "unlabelled")
	w.mustWake("other")
}
