package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// These tests are of what could harm the machine of whoever starts a cluster as root.

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
		err := poll(t.Context(), startTimeout, func() error { return c.check(kubelet, "containerd", "shim") })
		if err != nil {
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

func at(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := At(dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
