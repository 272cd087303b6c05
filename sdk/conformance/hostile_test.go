package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// childEnv makes the test binary a process that does nothing, for ever.
const childEnv = "CONFORMANCE_CHILD"

// pidFileEnv names a file to which a hostile plugin and its children append their process ids.
const pidFileEnv = "CONFORMANCE_PID_FILE"

// hostile are programs that want to hang, to flood or to outlive the checks. Which rules they break depends on when they are ended.
var hostile = map[string]misbehaviour{
	"FloodsStandardError": {
		reason: "what is written must not fill the memory, and is no log that anybody parses",
		program: &program{before: func() bool {
			line := []byte("{\"@message\":123}\n")
			go func() {
				for {
					_, _ = os.Stderr.Write(bytes.Repeat(line, 1<<12))
				}
			}()
			return true
		}},
	},
	"StopsItself": {
		reason: "a process that is stopped answers nothing, not even the order to end",
		program: &program{before: func() bool {
			time.AfterFunc(200*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) })
			return true
		}},
		limits: func(l *limits) {
			l.answer, l.probe, l.end, l.grace = time.Second, time.Second, time.Second, time.Second
		},
	},
	"LeavesChildren": {
		reason: "what a plugin has started must not live on, nor keep its output open",
		program: &program{before: func() bool {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), childEnv+"=1")
			child.Stdout, child.Stderr = os.Stdout, os.Stderr
			if err := child.Start(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			return false
		}},
	},
	"NeverFinishesSpeaking": {
		reason:  "a call that says something all the time still has to end",
		program: &program{},
		service: func(s *service) {
			s.refuses = func(json.RawMessage) *deployerv1.Result { return nil }
			s.deploys = func(c *conversation) error {
				for {
					if err := c.send(progress(strings.Repeat("x", 1<<20))); err != nil {
						return err
					}
				}
			}
		},
		limits:  func(l *limits) { l.probe = time.Second },
		timeout: time.Second,
	},
}

func notePid() {
	path := os.Getenv(pidFileEnv)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	_, _ = fmt.Fprintln(file, os.Getpid())
	_ = file.Close()
}

// counter counts what is written to it.
type counter struct{ bytes int }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

func TestHostilePluginHasAnEnd(t *testing.T) {
	t.Parallel()
	for name, m := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := quickLimits()
			if m.limits != nil {
				m.limits(&limits)
			}
			c := rawCase()
			c.Timeout = m.timeout
			pids := filepath.Join(t.TempDir(), "pids")
			out := &counter{}
			report, err := Binary(t.Context(), testBinary(t), Options{
				Env:   []string{misbehaviourEnv + "=" + name, pidFileEnv + "=" + pids},
				Cases: []Case{c}, Output: out, limits: &limits,
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Findings) != len(Rules()) {
				t.Errorf("%s: expected a finding for each rule, but found %d", m.reason, len(report.Findings))
			}
			if most := 5 * maxOutput; out.bytes > most { // it is started four times, and each says that it was cut
				t.Errorf("%s: %d bytes were passed on; expected %d at most", m.reason, out.bytes, most)
			}
			expectGone(t, pids)
		})
	}
}

// expectGone waits until none of the processes is left. A killed process may need a moment to go.
func expectGone(t *testing.T, pids string) {
	t.Helper()
	noted, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(noted)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); alive(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("process %d is still there", pid)
			}
		}
	}
}

// alive reports whether a process runs. An orphan that is dead waits for init to notice, which may never come in a container.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
