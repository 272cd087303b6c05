package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/logged"
)

// patience is how long a test waits for what must come, however slow the machine is.
const patience = 30 * time.Second

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	await.That(t, patience, what, condition)
}

// pluginDir returns a directory with a plugin of each name; see TestMain.
func pluginDir(t testing.TB, files ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range files {
		addPlugin(t, self, filepath.Join(dir, file))
	}
	return dir
}

// addPlugin puts a program into a plugin directory, as a link to the file where that is possible.
func addPlugin(t testing.TB, program, path string) {
	t.Helper()
	if os.Link(program, path) == nil {
		return
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

// listener counts changes and records wake-ups.
type listener struct {
	changes  atomic.Int32
	unneeded atomic.Bool
	asked    atomic.Int32 // for need

	mu    sync.Mutex
	woken []string
}

var _ Listener = (*listener)(nil)

func (l *listener) Changed() { l.changes.Add(1) }

func (l *listener) WakeUp(p *Plugin, namespace, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.woken = append(l.woken, p.Name()+" "+namespace+"/"+name)
}

func (l *listener) Needs(*Plugin) bool {
	l.asked.Add(1)
	return !l.unneeded.Load()
}

func (*listener) WatchedItems(context.Context, *Plugin) ([]sdk.WatchedItem, error) {
	return []sdk.WatchedItem{{Namespace: "default", Name: "woken"}}, nil
}

func (*listener) CallFor(_ context.Context, _ *Plugin, item types.NamespacedName) (Call, error) {
	return Call{DeployItem: deployItem(item.Name)}, nil
}

func (l *listener) wakeUps() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.woken...)
}

// host is a Set with what a test wants to see of it.
type host struct {
	*Set
	*listener

	t   testing.TB
	dir string
	log *logged.Records
	// end ends the Set and waits for it. It is called at the end of the test at the latest.
	end func()
}

// openHost opens the directory but runs nothing.
func openHost(t testing.TB, dir string, modify ...func(*Options)) *host {
	t.Helper()
	h := &host{t: t, dir: dir, log: &logged.Records{}, listener: &listener{}, end: func() {}}
	options := Options{Dir: dir, Log: h.log.Logger(), HostVersion: "test", StartTimeout: patience,
		StopGrace: patience, Silence: patience}
	for _, m := range modify {
		m(&options)
	}
	set, err := Open(options, h.listener)
	if err != nil {
		t.Fatal(err)
	}
	h.Set = set
	t.Cleanup(func() { _ = set.Close() }) // for a Set that is never run
	return h
}

func (h *host) run() *host {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	h.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("run: %v", err)
		}
	})
	h.t.Cleanup(h.end)
	return h
}

// start runs plugins of these names and waits until each is running.
func start(t testing.TB, files ...string) *host {
	t.Helper()
	return runHost(t, pluginDir(t, files...))
}

func runHost(t testing.TB, dir string, modify ...func(*Options)) *host {
	t.Helper()
	h := openHost(t, dir, modify...).run()
	eventually(t, "the plugins to run", func() bool { return h.Ready() == nil })
	return h
}

func (h *host) status(file string) Status {
	for _, s := range h.Status() {
		if s.File == file {
			return s
		}
	}
	return Status{}
}

// waitFor waits until a plugin is in a state.
func (h *host) waitFor(file string, state State) Status {
	h.t.Helper()
	var s Status
	eventually(h.t, fmt.Sprintf("%s to be %s", file, state), func() bool {
		s = h.status(file)
		return s.State == state
	})
	return s
}

// expectProblem waits until a plugin is in a state, and expects this part of its problem.
func (h *host) expectProblem(file string, state State, want string) {
	h.t.Helper()
	if s := h.waitFor(file, state); !strings.Contains(fmt.Sprint(s.Problem), want) {
		h.t.Errorf("expected %s to be %s because of %q, but found: %v", file, state, want, s.Problem)
	}
}

func (h *host) plugin(file string) *Plugin {
	for _, p := range h.plugins {
		if p.file == file {
			return p
		}
	}
	return nil
}

// current returns the running process of a plugin.
func (h *host) current(file string) *launch.Process {
	h.t.Helper()
	p := h.plugin(file)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil {
		h.t.Fatalf("%s has no process", file)
	}
	return p.run.process
}

func (h *host) signal(file string, signal syscall.Signal) {
	h.t.Helper()
	if err := syscall.Kill(h.current(file).Pid(), signal); err != nil {
		h.t.Fatal(err)
	}
}

// crash ends the process of a plugin and waits until the host has noticed.
func (h *host) crash(file string) {
	h.t.Helper()
	ended := h.current(file).Ended
	h.signal(file, syscall.SIGKILL)
	<-ended
}

func (h *host) call(ctx context.Context, file, item string) (*Outcome, error) {
	return h.plugin(file).Call(ctx, Reconcile, Call{DeployItem: deployItem(item)}, &observer{})
}

// expectSuccess calls a plugin for an item of its own: the calls of one item come one after the other.
func (h *host) expectSuccess(file string) {
	h.t.Helper()
	item := deployItem("item")
	item.UID = "another"
	outcome, err := h.plugin(file).Call(h.t.Context(), Reconcile, Call{DeployItem: item}, &observer{})
	if err != nil || outcome.Succeeded == nil {
		h.t.Errorf("expected %s to succeed, but found %v (%v)", file, outcome, err)
	}
}

func deployItem(name string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Status:     v1alpha1.DeployItemStatus{JobID: "job"},
	}
}

// left waits for what a plugin has left beside itself.
func left(t *testing.T, dir, name string) string {
	t.Helper()
	var text []byte
	eventually(t, "the plugin to leave ."+name, func() bool {
		var err error
		text, err = os.ReadFile(filepath.Join(dir, "."+name))
		return err == nil
	})
	return string(text)
}

func pid(t *testing.T, text string) int {
	t.Helper()
	id, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || id <= 1 {
		t.Fatalf("%q is no process id", text)
	}
	return id
}

// alive reports whether a process lives. A process that nobody has waited for yet does not.
func alive(id int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// observer takes the reports of a plugin and has no answers for it.
type observer struct{ Observer }

func (observer) Progress(string, string) {}
