package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
)

// intruderRole makes the test binary a plugin that wants to have others reloaded: "control.test intruder DIR".
const intruderRole = "intruder"

func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != intruderRole {
		os.Exit(m.Run())
	}
	if err := json.NewEncoder(os.Stdout).Encode(intrude(os.Args[2])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// intrusion is what a plugin has achieved in the run directory of its host.
type intrusion struct {
	// FoundSocket tells whether the kernel's list of sockets, which is there for all, has the control socket.
	FoundSocket bool
	TokenDenied bool
	// Reload and ReloadWithoutToken say what became of these requests; empty if they were carried out.
	Reload, ReloadWithoutToken string
}

func intrude(dir string) intrusion {
	done := intrusion{}
	sockets, err := os.ReadFile("/proc/self/net/unix")
	done.FoundSocket = err == nil && strings.Contains(string(sockets), filepath.Join(dir, SocketName))
	_, err = readToken(dir)
	done.TokenDenied = errors.Is(err, os.ErrPermission)
	if _, err := NewClient(dir).Reload(context.Background()); err != nil {
		done.Reload = err.Error()
	}
	if err := reloadWithoutToken(dir); err != nil {
		done.ReloadWithoutToken = err.Error()
	}
	return done
}

func reloadWithoutToken(dir string) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://host"+reloadPath, http.NoBody)
	if err != nil {
		return err
	}
	response, err := NewClient(dir).http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// A plugin finds the control socket without being told where it is. It controls the host only if it is not confined.
func TestPluginsDoNotControlTheHost(t *testing.T) {
	t.Parallel()
	t.Run("confined", func(t *testing.T) {
		t.Parallel()
		if supported := sandbox.Supported(); supported.ABI == 0 {
			t.Skip("no program can be confined here: " + supported.Reason)
		}
		plugins := &countingPlugins{}
		got := runIntruder(t, plugins, sandbox.Required)
		if !got.TokenDenied || got.Reload == "" || got.ReloadWithoutToken == "" || plugins.asked() > 0 {
			t.Errorf("a confined program has had plugins reloaded %d times: %+v", plugins.asked(), got)
		}
	})
	t.Run("not confined", func(t *testing.T) { // it could have done so, that is
		t.Parallel()
		plugins := &countingPlugins{}
		got := runIntruder(t, plugins, sandbox.Off)
		want := intrusion{FoundSocket: true, ReloadWithoutToken: "401 Unauthorized"}
		if got != want || plugins.reloads.Load() != 1 {
			t.Errorf("expected %+v, and one reload, but found %+v, and %d", want, got, plugins.reloads.Load())
		}
	})
}

// runIntruder runs an intruder beside a server, as plugins run, with a directory of its own in the run directory.
func runIntruder(t *testing.T, plugins Plugins, confinement sandbox.Mode) (done intrusion) {
	t.Helper()
	dir, end := serve(t, plugins)
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }() // it was only read
	launch, err := sandbox.Command(t.Context(), sandbox.Spec{
		Program: program, Path: path, Args: []string{intruderRole, dir}, Env: []string{"TMPDIR=" + own}, Confinement: confinement, Write: []string{own},
	})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	launch.Cmd.Stdout, launch.Cmd.Stderr = &stdout, &stderr
	if err := launch.Start(); err != nil {
		t.Fatal(err)
	}
	if err := launch.Cmd.Wait(); err != nil {
		t.Fatalf("the program: %v; it says: %s", err, stderr.String())
	}
	if err := json.Unmarshal([]byte(stdout.String()), &done); err != nil {
		t.Fatalf("the program says %q: %v", stdout.String(), err)
	}
	end()
	if err := os.Remove(own); err != nil {
		t.Error(err)
	}
	return done
}
