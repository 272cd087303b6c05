package watch

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// environment is the API server that all tests of this package share.
var environment *envtest.Environment

func TestMain(m *testing.M) {
	os.Exit(testenv.RunOnAPIServer(leakCheck{m}, func(e *envtest.Environment) { environment = e }))
}

// leakCheck runs tests, which fail if goroutines are left of them.
type leakCheck struct{ tests *testing.M }

func (c leakCheck) Run() int {
	code := c.tests.Run()
	if left := goroutinesLeft(); left != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left:\n%s", left)
		code = 1
	}
	return code
}

// goroutinesLeft waits for the goroutines of watches to end, and describes those that do not.
func goroutinesLeft() string {
	var stacks bytes.Buffer
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		stacks.Reset()
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		if !strings.Contains(stacks.String(), "internal/watch.(*") && !strings.Contains(stacks.String(), "cache.(*Reflector)") {
			return ""
		}
	}
	return stacks.String()
}

var (
	configMaps = targetclient.Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true}
	secrets    = targetclient.Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Namespaced: true}
	namespaces = targetclient.Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
)

// world is what one test plays in: a Set that runs, a client whose requests are noted, and a namespace on the shared cluster.
type world struct {
	testing.TB

	set       *Set
	client    *targetclient.Client
	requests  *requestLog
	admin     dynamic.Interface
	namespace string
	// wakeUps are the items that were woken.
	wakeUps chan string
}

func newWorld(t testing.TB, opts ...Option) *world {
	t.Helper()
	return newWorldOn(t, environment.Config, opts...)
}

// newWorldOn has the client use a configuration of its own.
func newWorldOn(t testing.TB, config *rest.Config, opts ...Option) *world {
	t.Helper()
	admin, err := dynamic.NewForConfig(adminConfig())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, set: New(opts...), requests: &requestLog{}, admin: admin, wakeUps: make(chan string, 10000)}
	w.client, err = targetclient.NewCache("test", targetclient.WrapTransport(w.requests.wrap)).Get(kubeconfigOf(t, config))
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := admin.Resource(namespaces.Resource).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "test-"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = namespace.GetName()
	return w
}

func adminConfig() *rest.Config {
	config := rest.CopyConfig(environment.Config)
	config.QPS = -1
	return config
}

func kubeconfigOf(t testing.TB, config *rest.Config) []byte {
	t.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// run runs the Set until the test ends, or the returned function is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.set.Run(ctx, func(_, name string) { w.wakeUps <- name })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	w.Cleanup(stop)
	return stop
}

// follow has an item follow objects.
func (w *world) follow(item string, seen ...Seen) {
	w.set.Follow(types.NamespacedName{Namespace: w.namespace, Name: item}, seen)
}

// seen is an object as it is.
func (w *world) seen(m targetclient.Mapping, name string) Seen {
	w.Helper()
	s := w.absent(m, name)
	o, err := w.objects(m).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	s.ResourceVersion = o.GetResourceVersion()
	return s
}

// absent is an object that was not there.
func (w *world) absent(m targetclient.Mapping, name string) Seen {
	key := object.Key{Name: name, Namespace: w.namespace}
	if !m.Namespaced {
		key.Namespace = ""
	}
	return Seen{Client: w.client, Mapping: m, Key: key}
}

func (w *world) objects(m targetclient.Mapping) dynamic.ResourceInterface {
	if !m.Namespaced {
		return w.admin.Resource(m.Resource)
	}
	return w.admin.Resource(m.Resource).Namespace(w.namespace)
}

// labels of an object that a deploy item has applied.
var labels = map[string]string{owner.Label: "namespace.item"}

// create creates a ConfigMap or Secret.
func (w *world) create(m targetclient.Mapping, name string, labels map[string]string) {
	w.Helper()
	kind := map[targetclient.Mapping]string{configMaps: "ConfigMap", secrets: "Secret"}[m]
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	o.SetName(name)
	o.SetLabels(labels)
	if _, err := w.objects(m).Create(w.Context(), o, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) patch(m targetclient.Mapping, name, patch string) {
	w.Helper()
	if _, err := w.objects(m).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

var changes int

// touch changes an object. The tests run one after another.
func (w *world) touch(m targetclient.Mapping, name string) {
	w.Helper()
	changes++
	w.patch(m, name, fmt.Sprintf(`{"metadata":{"annotations":{"changed":"%d"}}}`, changes))
}

func (w *world) remove(m targetclient.Mapping, name string) {
	w.Helper()
	if err := w.objects(m).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// mustWake waits for the wake-up of an item, before any other.
func (w *world) mustWake(item string) {
	w.Helper()
	select {
	case woken := <-w.wakeUps:
		if woken != item {
			w.Fatalf("expected %q to be woken, but found %q", item, woken)
		}
	case <-time.After(30 * time.Second):
		w.Fatalf("%q was not woken", item)
	}
}

// mustWakeAll waits for the wake-ups of the items, in any order.
func (w *world) mustWakeAll(items ...string) {
	w.Helper()
	var woken []string
	for range items {
		select {
		case name := <-w.wakeUps:
			woken = append(woken, name)
		case <-time.After(30 * time.Second):
			w.Fatalf("expected %v to be woken, but found only %v", items, woken)
		}
	}
	slices.Sort(woken)
	if !slices.Equal(woken, items) {
		w.Errorf("expected %v to be woken, but found %v", items, woken)
	}
}

// mustNotHaveWoken looks at what has happened so far.
func (w *world) mustNotHaveWoken() {
	w.Helper()
	select {
	case woken := <-w.wakeUps:
		w.Fatalf("expected no wake-up, but found that of %q", woken)
	default:
	}
}

func (w *world) waitUntil(what string, condition func() bool) {
	w.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("waited in vain for %s", what)
		}
	}
}

// waitForSync waits until so many streams tell what there is, and nothing is in doubt.
func (w *world) waitForSync(streams int) {
	w.Helper()
	w.waitUntil(fmt.Sprintf("%d streams", streams), func() bool {
		w.set.mu.Lock()
		defer w.set.mu.Unlock()
		for _, st := range w.set.streams {
			if !st.synced || len(st.doubtful) > 0 {
				return false
			}
		}
		return len(w.set.streams) == streams
	})
}

// streams returns what is watched, as "resource" or "resource name", in order.
func (w *world) streams() []string {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	var names []string
	for key := range maps.Keys(w.set.streams) {
		names = append(names, strings.TrimSpace(key.mapping.Resource.Resource+" "+key.name))
	}
	slices.Sort(names)
	return names
}

// requestLog notes the requests to the target.
type requestLog struct {
	mu sync.Mutex
	// watches and all count the requests.
	watches, all int
	// answer, if not nil, may answer in place of the target.
	answer func(*http.Request) *http.Response
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		l.all++
		if r.URL.Query().Get("watch") == "true" {
			l.watches++
		}
		answer := l.answer
		l.mu.Unlock()
		if answer != nil {
			if res := answer(r); res != nil {
				return res, nil
			}
		}
		return next.RoundTrip(r)
	})
}

func (l *requestLog) counts() (watches, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watches, l.all
}

func (l *requestLog) answerWith(answer func(*http.Request) *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
