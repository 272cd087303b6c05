package process_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/test/cluster/internal/process"
)

const grace = 10 * time.Second

func TestStopEndsWhatStartStarted(t *testing.T) {
	table := newTable(t)
	id := start(t, table, "exec sleep 3600")
	if err := table.Check("program"); err != nil {
		t.Fatalf("Check of a running program: %v", err)
	}
	// Nobody waits for the child, so it stays as a zombie: that is stopped.
	if err := table.Stop(t.Context(), "program", grace); err != nil {
		t.Fatal(err)
	}
	if id.Alive() {
		t.Error("the process is alive after Stop")
	}
	if _, err := table.Lookup("program"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lookup after Stop = %v, want fs.ErrNotExist", err)
	}
	if err := table.Stop(t.Context(), "program", grace); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	table := newTable(t)
	id := start(t, table, "trap '' TERM; echo ready; exec sleep 3600")
	waitForLog(t, table, "ready")
	if err := table.Stop(t.Context(), "program", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if id.Alive() {
		t.Error("the process is alive after Stop")
	}
}

func TestStopSparesAnotherProcessOfTheSameNumber(t *testing.T) {
	table := newTable(t)
	id := start(t, table, "exec sleep 3600")
	foreign := process.ID{PID: id.PID, Start: id.Start + 1}
	record := fmt.Sprintf("%d %d\n", foreign.PID, foreign.Start)
	if err := os.WriteFile(filepath.Join(table.Records, "program.pid"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := table.Stop(t.Context(), "program", grace); err != nil {
		t.Fatal(err)
	}
	if !id.Alive() {
		t.Error("Stop ended a process that started at another time than the recorded one")
	}
}

func TestCheckShowsTheEndOfTheLog(t *testing.T) {
	table := newTable(t)
	start(t, table, "echo first; echo the reason; exec sleep 3600")
	waitForLog(t, table, "the reason")
	id, err := table.Lookup("program")
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	err = table.Check("program")
	if err == nil || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), table.Log("program")) {
		t.Errorf("Check = %v, want the log's path and its last line", err)
	}
}

func newTable(t *testing.T) process.Table {
	t.Helper()
	return process.Table{Records: t.TempDir(), Logs: t.TempDir()}
}

func start(t *testing.T, table process.Table, script string) process.ID {
	t.Helper()
	id, err := table.Start("program", exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context is over when it cleans up.
		if err := id.Stop(context.WithoutCancel(t.Context()), 0); err != nil {
			t.Error(err)
		}
	})
	return id
}

func waitForLog(t *testing.T, table process.Table, want string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); <-ticker.C {
		content, err := os.ReadFile(table.Log("program"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), want) {
			return
		}
	}
	t.Fatalf("%q is not in the log after %s", want, grace)
}
