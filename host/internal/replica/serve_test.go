package replica

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// gate lets requests that write through, and counts them, until it is closed.
type gate struct {
	writes atomic.Int64
	closed atomic.Bool
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return next.RoundTrip(r)
		}
		if g.closed.Load() {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		g.writes.Add(1)
		return next.RoundTrip(r)
	})
}

// joinBehind joins a replica behind a gate, whose Lease is renewed by itself every 20 minutes only.
func (n namespace) joinBehind(t *testing.T, g *gate) *Replicas {
	t.Helper()
	n.createPod(t, "a")
	config := rest.CopyConfig(controlPlane.Config)
	config.Wrap(g.wrap)
	// A lock prefix from the documentation, which is no label value.
	r, err := Join(t.Context(), Options{Config: config, Namespace: string(n), PodName: "a", Group: "pergola-", LeaseDuration: time.Hour})
	if err != nil {
		t.Fatalf("join: %v", err)
	}
	return r
}

// run runs a replica until the function that it returns is called.
func run(t *testing.T, r *Replicas) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	n, g := newNamespace(t), &gate{}
	r := n.joinBehind(t, g)
	says := func(plugins string) func() bool {
		return func() bool { return n.lease(t, "a").Annotations[AnnotationPlugins] == plugins }
	}
	if !says("")() {
		t.Error("it serves something before it was told to")
	}
	r.Serve([]string{"manifest", "helm"})
	defer run(t, r)()
	eventually(t, "the plugins are published", says("helm,manifest"))
	if g.writes.Load() != 2 || !r.ElectedFor("helm") {
		t.Errorf("%d writes to join and to begin", g.writes.Load())
	}
	r.Serve([]string{"helm", "manifest"})
	r.Serve([]string{"helm"})
	eventually(t, "a change is published", says("helm"))
	if writes := g.writes.Load(); writes != 3 {
		t.Errorf("%d writes when one more was needed", writes)
	}
	for i := range 100 {
		r.Serve([]string{"helm", strings.Repeat("x", i)})
	}
	r.Serve(nil)
	eventually(t, "the last one of many changes is published", says(""))
	if writes := g.writes.Load(); writes > 50 {
		t.Errorf("%d writes for changes in a row", writes)
	}
}

// TestEndWithoutAnswer has a replica end while the API server does not answer: it must not take as long as its Lease says.
func TestEndWithoutAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		before func(*testing.T, *Replicas)
	}{
		"alone": {"nothing is under way", func(*testing.T, *Replicas) {}},
		"leaving": {"a request is under way", func(t *testing.T, r *Replicas) {
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			left := make(chan struct{})
			go func() { defer close(left); _ = r.Leave(ctx) }()
			t.Cleanup(func() { cancel(); <-left })
			eventually(t, "a request under way", func() bool { return len(r.keeper.turn) == 1 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, g := newNamespace(t), &gate{}
			r := n.joinBehind(t, g)
			g.closed.Store(true)
			tc.before(t, r)
			began := time.Now()
			run(t, r)()
			if took := time.Since(began); took > 2*giveBackTimeout {
				t.Errorf("%s: it took %s to end", tc.reason, took)
			}
		})
	}
}

// TestLeaveGivesUp has a replica leave while a renewal waits for its answer.
func TestLeaveGivesUp(t *testing.T) {
	t.Parallel()
	n, g := newNamespace(t), &gate{}
	r := n.joinBehind(t, g)
	g.closed.Store(true)
	stop := run(t, r)
	eventually(t, "a renewal under way", func() bool { return len(r.keeper.turn) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := r.Leave(ctx); err == nil {
		t.Error("it could leave although nobody answers")
	}
	g.closed.Store(false)
	stop()
}
