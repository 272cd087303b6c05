package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/logged"
)

// withClock lets the test decide when a pause is over.
func withClock(clock *clocktesting.FakeClock) func(*Options) {
	return func(o *Options) { o.Clock, o.Random = clock, func() float64 { return 0 } }
}

func newClock() *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

func TestWhatIsKnownOfAPlugin(t *testing.T) {
	t.Parallel()
	h := start(t, "echo")
	want := Status{
		File: "echo", State: Running,
		Info: &Info{
			Name: "echo", Version: "v1", SDKVersion: sdk.Release,
			Types:        []v1alpha1.DeployItemType{echoType},
			Capabilities: Capabilities{Watch: true, WatchItems: true, Validate: true, SeparateDocuments: true},
		},
	}
	got := h.status("echo")
	if got.Pid == 0 || got.StartTook <= 0 {
		t.Errorf("expected a process and how long its start took, but found %d and %s", got.Pid, got.StartTook)
	}
	got.Pid, got.StartTook = 0, 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*want.Info, h.For(echoType).Info()); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	if d := h.Details()[0]; len(d.SHA256) != 64 || d.Memory == 0 || d.Confinement != "off" || d.File != "echo" {
		t.Errorf("details: %+v", d)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h := runHost(t, pluginDir(t, "raw"), withClock(clock))
	first := h.current("raw").Pid()

	h.crash("raw")
	h.expectProblem("raw", Backoff, "its process ended: signal: killed")
	if _, err := h.call(t.Context(), "raw", "succeed"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("expected ErrNotRunning, but found: %v", err)
	}
	if h.For(echoType) == nil {
		t.Error("a plugin that is started again has lost its type")
	}
	eventually(t, "a pause", clock.HasWaiters)
	clock.Step(firstPause - time.Nanosecond)
	if s := h.status("raw"); s.State != Backoff || s.Restarted() != 0 {
		t.Errorf("expected the pause to last, but found %v", s)
	}
	clock.Step(time.Nanosecond)

	status := h.waitFor("raw", Running)
	if status.Restarted() != 1 || status.Problem != nil {
		t.Errorf("expected one restart and no problem, but found %v", status)
	}
	if second := h.current("raw").Pid(); second == first {
		t.Errorf("the process %d is not a new one", second)
	}
	h.expectSuccess("raw")
}

// What a plugin claims is settled once; another plugin in its place could take what is not its own.
// Rule (SECURITY.md#plugins): A plugin cannot become another one later.
func TestPluginMustNotBecomeAnother(t *testing.T) {
	t.Parallel()
	h := start(t, "changeling")
	h.crash("changeling")
	var status Status
	eventually(t, "it to be refused", func() bool {
		status = h.status("changeling")
		return status.Problem != nil && strings.Contains(status.Problem.Error(), "has become another plugin")
	})
	if status.State == Running || h.plugin("changeling").Name() != "life1" {
		t.Errorf("expected it to stay what it was, but found %v as %s", status.State, h.plugin("changeling").Name())
	}
	if _, err := h.call(t.Context(), "changeling", "succeed"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("expected ErrNotRunning, but found: %v", err)
	}
}

// A plugin is configured in each of its lives, with its own document, byte for byte.
func TestConfigure(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{"document": `{"int":9223372036854775807}`, "none": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := runHost(t, pluginDir(t, "raw_easygoing"), func(o *Options) {
				o.Configs = map[string][]byte{"easygoing": []byte(document), "other": []byte("{}")}
			})
			for _, life := range []string{"first", "second"} {
				if life == "second" {
					h.crash("raw_easygoing")
				}
				if diff := cmp.Diff(document, left(t, h.dir, "config")); diff != "" {
					t.Errorf("document of the %s life (-want +got):\n%s", life, diff)
				}
				if err := os.Remove(filepath.Join(h.dir, ".config")); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// What an operator configures must not be ignored in silence.
func TestConfigForAPluginThatTakesNone(t *testing.T) {
	t.Parallel()
	p := &Plugin{settings: &settings{Options: Options{Configs: map[string][]byte{"raw": []byte("{}"), "plain": nil}}}}
	const want = "remove plugins.raw.config from the host configuration"
	if err := p.configure(t.Context(), nil, &Info{Name: "raw"}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("expected the problem to say what to do, but found: %v", err)
	}
	if err := p.configure(t.Context(), nil, &Info{Name: "plain"}); err != nil {
		t.Errorf("expected that an entry without a document is none, but found: %v", err)
	}
}

func TestConfigForAPluginThatIsNotThere(t *testing.T) {
	t.Parallel()
	log := &logged.Records{}
	s := &Set{log: log.Logger(), plugins: []*Plugin{{facts: facts{info: &Info{Name: "easygoing"}}}, {}}}
	s.settings = &settings{Options: Options{
		Configs: map[string][]byte{"easygoing": []byte("{}"), "easygoign": []byte("{}"), "absent": nil},
	}}
	s.warnOfUnusedConfigs()
	var names []any
	for _, r := range log.With("there is configuration for a plugin that is not there") {
		names = append(names, r["name"])
		if diff := cmp.Diff([]any{"easygoing"}, r["plugins"]); diff != "" {
			t.Errorf("the plugins that are there (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff([]any{"absent", "easygoign"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// A stream of wake-ups that ends is opened again after a pause.
func TestWakeUps(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h := runHost(t, pluginDir(t, "raw_waking"), withClock(clock))
	eventually(t, "another wake-up", func() bool {
		if len(h.wakeUps()) < 2 {
			clock.Step(watchPause)
		}
		return len(h.wakeUps()) >= 2
	})
	want := []string{"waking default/item1", "waking default/item2"}
	if diff := cmp.Diff(want, h.wakeUps()[:2]); diff != "" {
		t.Errorf("wake-ups (-want +got):\n%s", diff)
	}
	if got := h.log.With("plugin stopped sending wake-ups"); len(got) == 0 {
		t.Error("the log does not tell that the stream has ended")
	}
}
