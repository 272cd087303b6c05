package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/test/await"
)

// patience is how long a test waits for what must come, however slow the machine is.
const patience = time.Minute

// Variables of the environment that tell a process of this test what to be.
const (
	parentEnv = "WORKER_TEST_PARENT" // a parent, for the scenario that it names
	oddEnv    = "WORKER_TEST_ODD"    // a worker that does not do as workers do
)

func TestMain(m *testing.M) {
	if odd := os.Getenv(oddEnv); odd != "" && isWorker() {
		oddWorkers[odd]()
		os.Exit(0)
	}
	Main(scripted{})
	if scenario := os.Getenv(parentEnv); scenario != "" {
		runParent(scenario)
		return
	}
	os.Exit(runTests(m))
}

// copyProgram returns the path of a copy of the test binary. While it is written no process is started, which would
// inherit the open file: what is open for writing cannot be executed.
func copyProgram(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin")
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// runTests runs the tests, and then looks for what they have left behind.
func runTests(m *testing.M) int {
	_ = flag.Set("test.parallel", "4") // most of the tests' time is waiting
	code := m.Run()
	for what, find := range map[string]func() string{"goroutines": leftGoroutines, "processes": leftProcesses} {
		var found string
		if !await.Until(patience, func() bool { found = find(); return found == "" }) {
			fmt.Fprintf(os.Stderr, "the tests have left %s behind: %s\n", what, found)
			code = 1
		}
	}
	return code
}

func leftGoroutines() string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
		return err.Error()
	}
	for _, stack := range strings.Split(all.String(), "\n\n") {
		if strings.Contains(stack, "internal/worker.(") || strings.Contains(stack, "os/exec.") {
			return stack
		}
	}
	return ""
}

// leftProcesses are children of this process, zombies included.
func leftProcesses() string {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if fields[1] == strconv.Itoa(os.Getpid()) {
			return string(text)
		}
	}
	return ""
}

// isGone tells whether a process has ended, whether or not somebody has waited for it.
func isGone(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.HasPrefix(text[bytes.LastIndexByte(text, ')')+1:], []byte(" Z"))
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	await.That(t, patience, what, condition)
}

// testLimits suffice for what does no harm.
var testLimits = helm.Limits{
	UnpackedBytes: 1 << 20, Files: 10, Depth: 2, RenderedBytes: 1 << 20, RenderTime: patience, MemoryBytes: 256 << 20,
}

// request asks for a scenario.
func request(scenario string, change ...func(*helm.Request)) *helm.Request {
	req := &helm.Request{
		Action: helm.Install, Kubeconfig: []byte("k"), Release: helm.Release{Namespace: "prod", Name: scenario},
		Limits: testLimits,
	}
	for _, c := range change {
		c(req)
	}
	return req
}

// newPool returns a pool whose idle workers end with the test, with 16 workers by default.
func newPool(t *testing.T, o Options) *Pool {
	t.Helper()
	o.Workers = cmp.Or(o.Workers, 16)
	p := New(o)
	t.Cleanup(func() {
		for child := p.takeIdle(); child != nil; child = p.takeIdle() {
			child.end()
		}
	})
	return p
}

// run carries out a request in a pool of its own.
func run(t *testing.T, scenario string, changes ...func(*helm.Request)) (*helm.Result, error) {
	t.Helper()
	return newPool(t, Options{}).Run(t.Context(), request(scenario, changes...), &observer{})
}

// result is that of a scenario that succeeds.
func result(t *testing.T, p *Pool, scenario string, o *observer) *helm.Result {
	t.Helper()
	found, err := p.Run(t.Context(), request(scenario), o)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func isSame(t *testing.T, want, got any) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func isCanceled(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found %v", err)
	}
}

func action(a helm.Action) func(*helm.Request) { return func(req *helm.Request) { req.Action = a } }

// observer writes down what it hears.
type observer struct {
	// changing is what Changing returns.
	changing error
	rendered func(ctx context.Context, objects []helm.Object) ([]helm.Object, error)
	// heard gets each step of progress, if there is a place.
	heard chan string

	mu   sync.Mutex
	said []string
}

func (o *observer) Changing(context.Context) error {
	o.note("changing")
	return o.changing
}

func (o *observer) Rendered(ctx context.Context, objects []helm.Object) ([]helm.Object, error) {
	o.note(fmt.Sprintf("rendered %d", len(objects)))
	if o.rendered == nil {
		return objects, nil
	}
	return o.rendered(ctx, objects)
}

func (o *observer) Found(context.Context, []helm.Found) error { return nil }

func (o *observer) Progress(step, message string) {
	o.note(step + ": " + message)
	select {
	case o.heard <- message:
	default:
	}
}

func (o *observer) Warning(reason, message string) { o.note("warning: " + reason + ": " + message) }

func (o *observer) Log(line string) { o.note("log: " + line) }

func (o *observer) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.said = append(o.said, what)
}

func (o *observer) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.said...)
}

// wantError fails unless an error is a *helm.Error of a kind, whose message has some texts.
func wantError(t *testing.T, err error, kind helm.Kind, texts ...string) {
	t.Helper()
	found, ok := errors.AsType[*helm.Error](err)
	if !ok || found.Kind != kind {
		t.Fatalf("expected %s, but found %#v: %v", kind, found, err)
	}
	for _, text := range texts {
		if !strings.Contains(found.Message, text) {
			t.Errorf("expected a message with %q, but found %q", text, found.Message)
		}
	}
}

// logger writes down what is logged.
type logger struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logger) Log() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// objects makes so many objects.
func objects(n int, text string) []helm.Object {
	var list []helm.Object
	for i := range n {
		list = append(list, helm.Object{
			Source: "shop/templates/a.yaml",
			JSON:   json.RawMessage(fmt.Sprintf(`{"kind":"ConfigMap","metadata":{"name":"c%d"},"data":{"text":%q}}`, i, text)),
		})
	}
	return list
}
