package cluster

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestDownSparesDirectoriesThatAreNotAClusters(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "etcd")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := at(t, dir).Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("Down removed a file that is not a cluster's: %v", err)
	}
	if err := at(t, dir).Up(t.Context(), t.TempDir(), false); err == nil {
		t.Error("Up uses a directory with files that are not a cluster's")
	}
}

func TestFailedUpLeavesOnlyTheLogs(t *testing.T) {
	dir := t.TempDir()
	c := at(t, dir)
	err := c.Up(t.Context(), t.TempDir(), false)
	if err == nil || !strings.Contains(err.Error(), "start etcd") {
		t.Errorf("Up without programs = %v, want etcd not to start", err)
	}
	for _, gone := range []string{kubeconfigFile, "pki"} {
		if _, err := os.Stat(c.path(gone)); !os.IsNotExist(err) {
			t.Errorf("%s is there after a failed Up", gone)
		}
	}
	if _, err := os.Stat(c.logFile("etcd")); err != nil {
		t.Errorf("the log is gone after a failed Up: %v", err)
	}
	if err := at(t, dir).Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there after Down: %v", err)
	}
}

func TestUpRefusesAClusterThatIsUpInPart(t *testing.T) {
	dir := t.TempDir()
	c := at(t, dir)
	if err := errors.Join(c.claim(), c.save(state{Name: c.Name, Programs: "somewhere"}), os.Mkdir(c.path(logDir), 0o755)); err != nil {
		t.Fatal(err)
	}
	err := at(t, dir).Up(t.Context(), "somewhere", false)
	if err == nil || !strings.Contains(err.Error(), "take it down first") {
		t.Errorf("Up = %v, want advice to take the cluster down", err)
	}
}

// Processes are found however their starter has ended, with those that they have started, and no others are.
func TestKillEndsTheClustersProcessesAndNoOthers(t *testing.T) {
	mine, other := at(t, t.TempDir()), at(t, t.TempDir())
	for _, c := range []*Cluster{mine, other} {
		if err := errors.Join(c.claim(), os.Mkdir(c.path(logDir), 0o755)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.kill(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		for name, cmd := range map[string]*exec.Cmd{
			kubelet: exec.Command("sleep", "3600"), "containerd": exec.Command("bash", "-c", "(exec -a shim sleep 3600) & wait"),
		} {
			cmd.Args[0] = name
			if _, err := c.start(name, cmd); err != nil {
				t.Fatal(err)
			}
		}
		if err := poll(t.Context(), startTimeout, func() error { return c.check(kubelet, "containerd", "shim") }); err != nil {
			t.Fatal(err)
		}
	}
	// want is which of mine run.
	check := func(when string, want ...string) {
		t.Helper()
		running, err := mine.running()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range want {
			if running[name] == 0 {
				t.Errorf("%s: %s does not run: %v", when, name, running)
			}
		}
		if len(running) != len(want) {
			t.Errorf("%s: found %v, want %v", when, running, want)
		}
	}
	check("at first", kubelet, "containerd", "shim")
	if err := mine.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("in the end")
	if err := other.check(kubelet, "containerd", "shim"); err != nil {
		t.Errorf("a process of another cluster was ended: %v", err)
	}
}

func TestFailedBuildLeavesNothingAndSaysWhy(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	programs, err := Locate(fstest.MapFS{
		"go.mod":             {Data: []byte("module m\n\nrequire (\n\tk8s.io/kubernetes v1.37.1\n)\n")},
		"go.sum":             {Data: []byte("sums\n")},
		"components/main.go": {Data: []byte("package main\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = programs.Build(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "malformed go.sum") {
		t.Errorf("Build = %v, want what the go command says of go.sum", err)
	}
	for _, path := range []string{programs.home, programs.home + ".partial"} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is there after a failed build", path)
		}
	}
}

// Builds of the same programs wait for each other, as do commands on the same cluster.
func TestLockExcludesOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(t.Context(), dir, func() { t.Error("a free lock makes wait") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, dir, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("lock = %v, want it to wait until the context ends", err)
	}
	_, err = lock(t.Context(), dir, func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
		unlock()
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lock = %v for a directory that its holder has removed, want fs.ErrNotExist", err)
	}
}

func at(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := At(dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
