package watch

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(leakCheck{m})) }

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
		if !strings.Contains(stacks.String(), "internal/watch.(*") &&
			!strings.Contains(stacks.String(), "cache.(*Reflector)") {
			return ""
		}
	}
	return stacks.String()
}

var (
	configMaps = target.Mapping{Resource: plugintest.ConfigMaps, Namespaced: true}
	secrets    = target.Mapping{Resource: plugintest.Secrets, Namespaced: true}
	namespaces = target.Mapping{Resource: plugintest.Namespaces}
)

// world is what one test plays in: a Set that runs, and a client.
type world struct {
	*plugintest.World

	set    *Set
	client *target.Client
	// wakeUps are the items that were woken.
	wakeUps chan string
}

func withClock(clk clock.Clock) Option { return func(s *Set) { s.clock = clk } }

func newWorld(t testing.TB, opts ...Option) *world {
	t.Helper()
	return newWorldOn(t, plugintest.Config(), opts...)
}

// newWorldOn has the client use an access of its own.
func newWorldOn(t testing.TB, access *rest.Config, opts ...Option) *world {
	t.Helper()
	w := &world{World: plugintest.New(t), set: New(opts...), wakeUps: make(chan string, 10000)}
	w.client = w.Client(access)
	return w
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
	w.set.Follow(types.NamespacedName{Namespace: w.Namespace, Name: item}, seen)
}

// seen is an object as it is.
func (w *world) seen(m target.Mapping, name string) Seen {
	w.Helper()
	return SeenOf(w.client, m, w.absent(m, name).Key, w.MustGet(m.Resource, name))
}

// absent is an object that was not there.
func (w *world) absent(m target.Mapping, name string) Seen {
	key := object.Key{Name: name, Namespace: w.Namespace}
	if !m.Namespaced {
		key.Namespace = ""
	}
	return Seen{Client: w.client, Mapping: m, Key: key}
}

// labels of an object that a deploy item has applied.
var labels = map[string]string{owner.Label: "namespace.item"}

// create creates a ConfigMap or Secret.
func (w *world) create(m target.Mapping, name string, labels map[string]string) {
	w.Helper()
	kind := map[target.Mapping]string{configMaps: "ConfigMap", secrets: "Secret"}[m]
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	o.SetName(name)
	o.SetLabels(labels)
	w.Create(m.Resource, o.Object)
}

var changes atomic.Int64

// touch changes an object.
func (w *world) touch(m target.Mapping, name string) {
	w.Helper()
	w.Patch(m.Resource, name, fmt.Sprintf(`{"metadata":{"annotations":{"changed":"%d"}}}`, changes.Add(1)))
}

// mustWake waits for the wake-up of an item, before any other.
func (w *world) mustWake(item string) {
	w.Helper()
	w.mustWakeAll(item)
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
	if slices.Sort(woken); !slices.Equal(woken, items) {
		w.Fatalf("expected %v to be woken, but found %v", items, woken)
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

// waitForSync waits until so many streams tell what there is.
func (w *world) waitForSync(streams int) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%d streams", streams), func() bool {
		w.set.mu.Lock()
		defer w.set.mu.Unlock()
		for _, st := range w.set.streams {
			if !st.synced {
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

func (w *world) mustStream(want ...string) {
	w.Helper()
	if got := w.streams(); !slices.Equal(got, want) {
		w.Errorf("expected the streams %v, but found %v", want, got)
	}
}

// counts returns how many watches and requests of all kinds there were.
func (w *world) counts() (watches, all int) {
	steps := w.Requests.Steps()
	for _, step := range steps {
		if strings.HasPrefix(step, "WATCH ") {
			watches++
		}
	}
	return watches, len(steps)
}
