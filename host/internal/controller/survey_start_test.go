package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// gate is a transport to the API server that holds back the lists of whole items until it is opened, and counts the
// reads of single ones.
type gate struct {
	http.RoundTripper
	opened chan struct{}

	mu   sync.Mutex
	read map[string]int // by path
}

func (g *gate) RoundTrip(request *http.Request) (*http.Response, error) {
	metadata := strings.Contains(request.Header.Get("Accept"), "PartialObjectMetadata")
	_, name, items := strings.Cut(request.URL.Path, "/deployitems")
	switch {
	case !items || metadata || request.Method != http.MethodGet:
	case name == "":
		select {
		case <-g.opened:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	default:
		g.mu.Lock()
		g.read[request.URL.Path]++
		g.mu.Unlock()
	}
	return g.RoundTripper.RoundTrip(request)
}

// readsOf is how often an item was read by itself.
func (g *gate) readsOf(item *v1alpha1.DeployItem) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.read[fmt.Sprintf("/apis/%s/namespaces/%s/deployitems/%s", v1alpha1.GroupVersion, item.Namespace, item.Name)]
}

// startBehind starts a whole controller behind a gate, and returns when it waits for its survey with all queues there.
func (a *api) startBehind(plugins *fakePlugins) *gate {
	a.t.Helper()
	g := &gate{opened: make(chan struct{}), read: map[string]int{}}
	behind := *a
	behind.config = rest.CopyConfig(a.config)
	behind.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		g.RoundTripper = next
		return g
	})
	r := behind.startController(plugins).router
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.held && r.untyped != nil && len(r.queues) == len(plugins.serving), nil
	})
	if err != nil {
		a.t.Fatal("the queues are not there")
	}
	return g
}

func TestNewJobsDoNotWaitForTheSurvey(t *testing.T) {
	a, itemType := newServerAPI(t), newType()
	ofType := func(item *v1alpha1.DeployItem) {
		item.Spec.Type, item.Annotations[v1alpha1.DeployerTypeAnnotation] = itemType, string(itemType)
	}
	silent := func(item *v1alpha1.DeployItem) { item.Spec.Type, item.Annotations = itemType, nil }
	namespace := a.newNamespace()
	var idle []*v1alpha1.DeployItem
	for i := range 10 {
		idle = append(idle, a.newItemAs(namespace, fmt.Sprint("idle-", i), finished, ofType),
			a.newItemAs(namespace, fmt.Sprint("silent-", i), finished, silent))
	}
	interrupted := a.newItemAs(namespace, "interrupted", newJob, ofType)
	interruptedSilently := a.newItemAs(namespace, "interrupted-silently", newJob, silent)

	one := &fakeDeployer{name: "one", itemType: itemType}
	one.call = func(ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer) (*plugin.Outcome, error) {
		return succeeds(ctx, op, o)
	}
	g := a.startBehind(&fakePlugins{serving: []*fakeDeployer{one}})
	for name, modify := range map[string]func(*v1alpha1.DeployItem){"new": ofType, "new-silent": silent} {
		item := a.newItemAs(namespace, name, "", modify)
		a.waitFinished(item, a.setJob(item, time.Now()))
	}
	a.waitFinished(idle[0], a.setJob(idle[0], time.Now()))
	if n := g.readsOf(interrupted); n > 0 {
		t.Errorf("an item that was there has not waited for the survey: %d reads", n)
	}
	close(g.opened)
	a.waitFinished(interrupted, "2")
	a.waitFinished(interruptedSilently, "2")
	for _, item := range idle[1:] {
		if n := g.readsOf(item); n > 0 {
			t.Errorf("%s had nothing to do and was read %d times", item.Name, n)
		}
	}
}

// BenchmarkSurvey takes a survey of a thousand idle items on a real API server, and tells what is kept of each.
func BenchmarkSurvey(b *testing.B) {
	a := newServerAPI(b)
	a.createMany(1000)
	for b.Loop() {
		b.StopTimer()
		r := newRouter(newMemory(), time.Now)
		before := heap()
		b.StartTimer()
		s := &survey{live: a.admin, cache: lister{}, router: r, clock: clock.RealClock{}, log: slog.New(slog.DiscardHandler)}
		if _, err := s.listAll(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/float64(len(r.memory.entries)), "B/item-kept")
		b.StartTimer()
	}
}

func (a *api) createMany(n int) {
	a.t.Helper()
	namespace := a.newNamespace()
	for i := range n {
		item := newDeployItem(namespace, fmt.Sprint("item-", i))
		item.Spec.Config = &k8sruntime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Text","text":"` + strings.Repeat("x", 4096) + `"}`)}
		a.create(item)
	}
}

// heap is how much of the heap is in use.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
