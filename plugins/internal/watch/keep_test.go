package watch

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// keep has a finished item follow objects.
func (w *world) keep(item string, seen ...Seen) {
	w.set.Keep(types.NamespacedName{Namespace: w.Namespace, Name: item}, seen)
}

// Rule (deploy-items.md#health): The objects of a finished item are watched without a limit of time, unless a
// wake-up is followed by no check.
func TestKeep(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(time.Now())
	w := newWorld(t, withClock(clk))
	w.create(configMaps, "kept", labels)
	w.create(configMaps, "waited", labels)
	w.run()
	w.keep("finished", w.seen(configMaps, "kept"))
	w.follow("waiting", w.seen(configMaps, "waited"))
	w.waitForSync(1)
	w.mustStream("configmaps")
	sweep := func(want int) {
		t.Helper()
		w.Eventually(fmt.Sprintf("%d items to be left", want), func() bool {
			clk.Step(expiry + sweepEvery)
			w.set.mu.Lock()
			defer w.set.mu.Unlock()
			return len(w.set.items) == want
		})
	}
	sweep(1)
	w.touch(configMaps, "kept")
	w.mustWake("finished")
	sweep(0)
	if w.set.kept != 0 {
		t.Errorf("expected no kept objects, but %d are counted", w.set.kept)
	}
}

// Rule (deploy-items.md#health): The objects of finished items take no watch from waiting items.
func TestKeptWatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set.maxPerTarget = 2
	for _, o := range []string{"a", "b"} {
		w.create(configMaps, o, labels)
		w.create(secrets, o, labels)
	}
	w.create(configMaps, "unlabelled", nil)
	w.keep("none", w.seen(configMaps, "unlabelled"))
	w.keep("one", w.seen(configMaps, "a"), w.seen(secrets, "a"))
	w.mustStream("configmaps")
	w.follow("waiting", w.seen(secrets, "b"))
	w.mustStream("configmaps", "secrets")
}

// TestRenewed: a target takes the credentials of the finished items no more. One of them is woken, and its new
// credentials are for all.
func TestRenewed(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	w := newWorldOn(t, p.config())
	items := []string{"a", "b", "c"}
	for _, o := range items {
		w.create(configMaps, o, labels)
		w.keep(o, w.seen(configMaps, o))
	}
	w.run()
	w.waitForSync(1)
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") != "true" {
			return nil, nil
		}
		return answer(r, http.StatusUnauthorized, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":401,`+
			`"reason":"Unauthorized"}`), nil
	})
	p.breakAll()
	var woken string
	select {
	case woken = <-w.wakeUps:
	case <-time.After(30 * time.Second):
		t.Fatal("no item was woken")
	}
	w.Requests.Answer(nil)
	renewed := rest.CopyConfig(p.config())
	renewed.UserAgent = "with new credentials"
	w.client = w.Client(renewed)
	w.keep(woken, w.seen(configMaps, woken))
	for _, o := range items {
		w.touch(configMaps, o)
	}
	w.mustWakeAll(items...)
}

// TestMemoryOfKept measures the memory for 100,000 objects of finished items, as many as are kept at most.
func TestMemoryOfKept(t *testing.T) {
	client := plugintest.New(t).Client(plugintest.Config())
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := New()
	for i := range maxKept + 10 {
		name := fmt.Sprintf("object-of-the-item-%d", i)
		version := fmt.Sprint(1_000_000 + i)
		s.Keep(types.NamespacedName{Namespace: "team", Name: strings.Clone(name)}, []Seen{{
			Client: client, Mapping: configMaps, ResourceVersion: version, Group: OfItems,
			Key: object.Key{Kind: "ConfigMap", Namespace: "team", Name: name},
		}})
		s.mu.Lock()
		for _, st := range s.streams {
			st.versions[name] = strings.Clone(version)
		}
		s.mu.Unlock()
	}
	used := heap() - before
	t.Logf("%d objects take %d MiB, %d bytes each", s.kept, used>>20, used/uint64(s.kept))
	if s.kept != maxKept || used > 100<<20 {
		t.Errorf("expected %d objects in 100 MiB", maxKept)
	}
	runtime.KeepAlive(s)
}
