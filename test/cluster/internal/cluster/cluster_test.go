package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	if err := at(t, dir).Up(t.Context(), Options{}); err == nil {
		t.Error("Up uses a directory with files that are not a cluster's")
	}
}

func TestDownWithoutADirectory(t *testing.T) {
	if err := at(t, filepath.Join(t.TempDir(), "none")).Down(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDownRemovesAClaimedDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := at(t, dir)
	if err := errors.Join(c.claim(), c.save(state{})); err != nil {
		t.Fatal(err)
	}
	if err := at(t, dir).Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there after Down: %v", err)
	}
}

func TestNameStaysWithTheDirectory(t *testing.T) {
	dir := t.TempDir()
	first, second := at(t, dir), at(t, dir)
	if err := errors.Join(first.claim(), second.claim()); err != nil {
		t.Fatal(err)
	}
	if first.name == "" || first.name != second.name {
		t.Errorf("names = %q and %q, want one", first.name, second.name)
	}
	// An empty name would make the root of all cgroups the cluster's.
	if err := first.write(marker, nil); err != nil {
		t.Fatal(err)
	}
	if err := second.identify(); err == nil || errors.Is(err, errNoCluster) {
		t.Errorf("identify by an empty marker = %v, want an error of its own", err)
	}
}

func TestUpRefusesAClusterThatIsUpInPart(t *testing.T) {
	dir := t.TempDir()
	c := at(t, dir)
	if err := errors.Join(c.claim(), c.save(state{})); err != nil {
		t.Fatal(err)
	}
	err := at(t, dir).Up(t.Context(), Options{})
	if err == nil || !strings.Contains(err.Error(), "take it down first") {
		t.Errorf("Up = %v, want advice to take the cluster down", err)
	}
}

func TestFailedUpLeavesOnlyTheLogs(t *testing.T) {
	dir := t.TempDir()
	c := at(t, dir)
	err := c.Up(t.Context(), Options{Programs: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "start etcd") {
		t.Errorf("Up without programs = %v, want etcd not to start", err)
	}
	for _, gone := range []string{"cluster.json", "kubeconfig", "pki", "run"} {
		if _, err := os.Stat(c.path(gone)); !os.IsNotExist(err) {
			t.Errorf("%s is there after a failed Up", gone)
		}
	}
	if _, err := os.Stat(c.table.Log("etcd")); err != nil {
		t.Errorf("the log is gone after a failed Up: %v", err)
	}
}

func TestKubeletNeedsANode(t *testing.T) {
	for _, test := range []struct {
		reason string
		state  *state
		want   string
	}{
		{reason: "there is no cluster", want: errNoCluster.Error()},
		{reason: "the cluster has no node", state: &state{}, want: "without a node"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			c := at(t, t.TempDir())
			if test.state != nil {
				if err := errors.Join(c.claim(), c.save(*test.state)); err != nil {
					t.Fatal(err)
				}
			}
			for name, do := range map[string]func(context.Context) error{"kill": c.KillKubelet, "start": c.StartKubelet} {
				if err := do(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s = %v, want %q", name, err, test.want)
				}
			}
		})
	}
}

func TestKillKubeletEndsNothingElse(t *testing.T) {
	c := at(t, t.TempDir())
	if err := errors.Join(c.claim(), c.save(state{Options: Options{Node: true}})); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{c.table.Records, c.table.Logs} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range nodePrograms {
		id, err := c.table.Start(name, exec.Command("sleep", "3600"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			// The test's own context is over when it cleans up.
			if err := id.Stop(context.WithoutCancel(t.Context()), 0); err != nil {
				t.Error(err)
			}
		})
	}
	for _, when := range []string{"running", "killed"} {
		if err := c.KillKubelet(t.Context()); err != nil {
			t.Fatalf("kill of a %s kubelet: %v", when, err)
		}
		for _, name := range nodePrograms {
			if running := c.table.Check(name) == nil; running != (name != kubelet) {
				t.Errorf("running is %t of %s after the kill of a %s kubelet", running, name, when)
			}
		}
	}
}

func at(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := At(dir, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
