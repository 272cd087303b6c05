package itemcache

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// oneNamespace is a source of the namespace shop, whose API server has two items there.
func oneNamespace(t *testing.T) (source *Source, status *atomic.Int32, watchedFrom func() []string) {
	t.Helper()
	status = &atomic.Int32{}
	var mu sync.Mutex
	var from []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := r.URL.Query(); {
		case status.Load() != 0 && r.URL.Path == "/api/v1/namespaces/shop":
			w.WriteHeader(int(status.Load()))
		case status.Load() != 0:
			w.WriteHeader(http.StatusForbidden)
		case query.Has("watch"):
			mu.Lock()
			from = append(from, query.Get("resourceVersion"))
			mu.Unlock()
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"20"},"items":[` +
				`{"metadata":{"namespace":"shop","name":"a","resourceVersion":"9"}},` +
				`{"metadata":{"namespace":"shop","name":"b","resourceVersion":"5"}}]}`)) // if that fails, so does the test
		}
	}))
	t.Cleanup(server.Close)
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	source, err = NewSource(&rest.Config{Host: server.URL}, scheme, "shop")
	if err != nil {
		t.Fatal(err)
	}
	source.NewInformer(source, &v1alpha1.DeployItem{}, 0, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})
	return source, status, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(from)
	}
}

// eventsOf returns some first events of a watch, and stops it.
func eventsOf(t *testing.T, source *Source, n int) (events []string) {
	t.Helper()
	w, err := source.Watch(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for range n {
		e := <-w.ResultChan()
		events = append(events, fmt.Sprint(e.Type, " ", e.Object.(*v1alpha1.DeployItem).Name))
	}
	return events
}

// The end of a watch within the first items of a namespace must not lose the rest of them, which may be older.
func TestNamespaceIsCaughtUp(t *testing.T) {
	t.Parallel()
	source, _, watchedFrom := oneNamespace(t)
	if got, want := eventsOf(t, source, 1), []string{"ADDED a"}; !slices.Equal(got, want) {
		t.Errorf("expected %q, but found %q", want, got)
	}
	if got := source.positions.get("shop"); got != "" {
		t.Errorf("expected no position after the first of two items, but found %s", got)
	}
	if got, want := eventsOf(t, source, 3), []string{"ADDED a", "ADDED b", "BOOKMARK "}; !slices.Equal(got, want) {
		t.Errorf("expected %q, but found %q", want, got)
	}
	eventsOf(t, source, 0)
	if got, want := watchedFrom(), []string{"20", "20", "20"}; !slices.Equal(got, want) {
		t.Errorf("expected watches from %q, but found %q", want, got)
	}
	if got := source.positions.get("shop"); got != "20" {
		t.Errorf("expected the position of the list, but found %s", got)
	}
}

// Rule (host-configuration.md#namespaces): The host forgets the DeployItems of a namespace that is gone, and keeps
// those of one that it may not list any more.
func TestNamespaceIsGone(t *testing.T) {
	t.Parallel()
	source, status, _ := oneNamespace(t)
	list := func() int {
		t.Helper()
		list, err := source.List(metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.(*metav1.List).Items)
	}
	list()
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", ResourceVersion: "9"}}
	if err := source.index.Load().Add(item); err != nil {
		t.Fatal(err)
	}
	status.Store(http.StatusForbidden)
	eventsOf(t, source, 0)
	if got := list(); got != 1 || source.positions.get("shop") != "20" {
		t.Errorf("forbidden: found %d items", got)
	}
	status.Store(http.StatusNotFound)
	eventsOf(t, source, 0) // finds it out
	if got, want := eventsOf(t, source, 1), []string{"DELETED a"}; !slices.Equal(got, want) || list() != 0 {
		t.Errorf("gone: expected %q, but found %q, %d items", want, got, list())
	}
	status.Store(0)
	if got, want := eventsOf(t, source, 2), []string{"ADDED a", "ADDED b"}; !slices.Equal(got, want) {
		t.Errorf("there again: expected %q, but found %q", want, got)
	}
}
