package reaper

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/test/await"
)

// patience is how long a test waits for what must come, however slow the machine is.
const patience = 30 * time.Second

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	await.That(t, patience, what, condition)
}

// There is one Reaper in a process, which adopts whatever any test leaves behind: no test is parallel to another.
var theReaper = sync.OnceValue(func() *Reaper {
	r, err := New(slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err) //nolint:forbidigo // there is nothing to test then
	}
	return r
})

// plugin is a shell that leads a process group, as plugins do.
type plugin struct {
	*exec.Cmd

	input io.WriteCloser // its end ends the shell
	left  int            // the process that its script has told of
}

// start starts a shell script that writes one process id.
func start(t *testing.T, script string) *plugin {
	t.Helper()
	p := &plugin{Cmd: exec.CommandContext(t.Context(), "/bin/sh", "-c", script)}
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if p.input, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 20)
	n, err := output.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if p.left, err = strconv.Atoi(strings.TrimSpace(string(text[:n]))); err != nil {
		t.Fatal(err)
	}
	return p
}

// end ends the script, and waits for it.
func (p *plugin) end(t *testing.T) {
	t.Helper()
	if err := p.input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
}

// exists tells whether there is a process, be it a zombie.
func exists(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

const (
	// A deserter leaves the group and the session, and holds nothing of the plugin.
	deserter = `setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!; `
	// The middle one of three ends at once, so that the last one is adopted while the plugin runs.
	daemon    = `(setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $!); `
	companion = `(sleep 300 </dev/null >/dev/null 2>&1 & echo $!); `
	untilEnd  = `read -r _ || true`
)

func TestSweep(t *testing.T) { //nolint:paralleltest // see theReaper
	for name, test := range map[string]struct {
		reason  string
		script  string
		ended   bool // the plugin, before the sweep
		adopted bool // what it has started, before the sweep
		killed  bool // as well
		gone    bool // after the sweep
	}{
		"child":      {reason: "it has a parent", script: deserter},
		"deserter":   {reason: "its parent has ended", script: deserter, ended: true, adopted: true, gone: true},
		"daemon":     {reason: "its parent has ended, although the plugin runs", script: daemon, adopted: true, gone: true},
		"companion":  {reason: "it is in the group of a plugin, and ends with it", script: companion, adopted: true},
		"left alone": {reason: "the group is that of no plugin any more", script: companion, ended: true, adopted: true, gone: true},
		"zombie":     {reason: "it has ended, and nobody else waits for it", script: companion, adopted: true, killed: true, gone: true},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // see theReaper
			r := theReaper()
			var p *plugin
			forget, err := r.Start(func() (int, error) {
				p = start(t, test.script+untilEnd)
				return p.Process.Pid, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if test.ended {
				p.end(t)
				forget()
			}
			eventually(t, "it to be adopted", func() bool { return !test.adopted || find(t, p.left).parent == os.Getpid() })
			if test.killed {
				if err := syscall.Kill(p.left, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				eventually(t, "a zombie", func() bool { return find(t, p.left).zombie })
			}
			r.sweep()
			if gone := !exists(p.left); gone != test.gone {
				t.Errorf("%s: expected it to be gone (%t), but found %t", test.reason, test.gone, gone)
			}
			if !test.ended {
				p.end(t)
				forget()
			}
			eventually(t, "the rest to end", func() bool {
				r.sweep()
				return !exists(p.left)
			})
		})
	}
}

// find reads the state of a process, which must be there.
func find(t *testing.T, pid int) process {
	t.Helper()
	p, err := readProcess(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What this process starts in its own group has somebody who waits for it.
func TestOwnChildrenAreLeftAlone(t *testing.T) { //nolint:paralleltest // see theReaper
	own := exec.CommandContext(t.Context(), "sleep", "300")
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	ended := exec.CommandContext(t.Context(), "true")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a zombie", func() bool { return find(t, ended.Process.Pid).zombie })
	theReaper().sweep()
	if err := ended.Wait(); err != nil {
		t.Errorf("somebody else has waited for it: %v", err)
	}
	if err := own.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	if err := own.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = own.Wait() // it was killed
}

// A plugin that is being started is in no group that is known yet.
func TestSweepDuringStart(t *testing.T) { //nolint:paralleltest // see theReaper
	r := theReaper()
	swept := make(chan struct{})
	var p *plugin
	forget, err := r.Start(func() (int, error) {
		p = start(t, `echo $$; `+untilEnd)
		go func() {
			defer close(swept)
			r.sweep()
		}()
		select {
		case <-swept:
			t.Error("there was a sweep during the start")
		case <-time.After(50 * time.Millisecond): // it waits
		}
		return p.Process.Pid, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-swept
	p.end(t) // which fails if it was killed
	forget()
}

func TestRunEndsWhatIsLeft(t *testing.T) { //nolint:paralleltest // see theReaper
	var log bytes.Buffer
	r := &Reaper{log: slog.New(slog.NewTextHandler(&log, nil)), groups: map[int]bool{}}
	theReaper() // adopts
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := start(t, deserter)
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	r.Run(ctx)
	if exists(p.left) {
		t.Error("it is not gone")
	}
	if want := fmt.Sprintf("pid=%d program=", p.left); !strings.Contains(log.String(), want) {
		t.Errorf("expected the log to tell of it, but found %q", log.String())
	}
}

func TestStartThatFails(t *testing.T) { //nolint:paralleltest // see theReaper
	want := os.ErrPermission
	for name, r := range map[string]*Reaper{"nil": nil, "one": theReaper()} {
		if _, err := r.Start(func() (int, error) { return 0, want }); err != want { //nolint:errorlint // it is the same
			t.Errorf("%s: expected its error, but found: %v", name, err)
		}
	}
}

func TestParseProcess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		stat   string
		want   process
		fails  bool
	}{
		"running":  {"as the kernel writes it", "12 (sleep) S 1 10 9 0", process{pid: 12, parent: 1, group: 10, program: "sleep"}, false},
		"zombie":   {"it has ended", "12 (sleep) Z 1 10 9 0", process{pid: 12, parent: 1, group: 10, program: "sleep", zombie: true}, false},
		"name":     {"a program chooses its name", "12 (a) Z 1 (b) S 1 10 9", process{pid: 12, parent: 1, group: 10, program: "a) Z 1 (b"}, false},
		"empty":    {"there is nothing", "", process{}, true},
		"short":    {"something is missing", "12 (sleep) S 1", process{}, true},
		"text":     {"these are no numbers", "12 (sleep) S one 10", process{}, true},
		"brackets": {"they are the wrong way around", "12 )sleep( S 1 10 9", process{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseProcess(test.stat)
			if (err != nil) != test.fails {
				t.Fatalf("%s: found: %v", test.reason, err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(process{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}
