package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// mark is the variable by which a cluster's processes are found again: what is started with it and all that those
	// start have it.
	mark = "PERGOLA_TEST_CLUSTER="
	// pollInterval is how often something is looked at that is to begin or to end.
	pollInterval = 50 * time.Millisecond
	// killTimeout bounds the wait after SIGKILL, which a process in an uninterruptible system call survives.
	killTimeout = 10 * time.Second
)

// start starts a program that outlives this process, in a session of its own, with its output in the program's log. It
// does not wait for the program to be of use.
func (c *Cluster) start(name string, cmd *exec.Cmd) (pid int, err error) {
	log, err := os.OpenFile(c.logFile(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, fmt.Errorf("open log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), mark+c.Name)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	pid = cmd.Process.Pid
	// What enters the node's namespaces becomes the program, and cannot be recognized while it does.
	err = poll(context.Background(), startTimeout, func() error {
		if program := c.programOf(pid); program != name && !ended(pid) {
			return fmt.Errorf("start %s: it is %q", name, program)
		}
		return nil
	})
	return pid, errors.Join(err, cmd.Process.Release())
}

// eachProcess calls do with each of the cluster's processes and the base name of its program: those that this package
// has started and what they have started, and those of pods, which are in the cluster's cgroup. A handle stays that of
// one process, whatever becomes of its number.
func (c *Cluster) eachProcess(do func(program string, process *os.Process) error) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return fmt.Errorf("find processes: %w", err)
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			return fmt.Errorf("find processes: %w", err)
		}
		if program := c.programOf(pid); program != "" {
			err = do(program, process)
		}
		if err := errors.Join(err, process.Release()); err != nil {
			return err
		}
	}
	return nil
}

// programOf returns the base name of the program of a process if it is one of the cluster's.
func (c *Cluster) programOf(pid int) string {
	dir := fmt.Sprintf("/proc/%d/", pid)
	// One that has ended meanwhile has nothing to read.
	environment, _ := os.ReadFile(dir + "environ")
	groups, _ := os.ReadFile(dir + "cgroup")
	command, _ := os.ReadFile(dir + "cmdline")
	marked := bytes.Contains(environment, []byte(mark+c.Name+"\x00"))
	if !marked && !bytes.Contains(groups, []byte("/"+c.Name+"/")) || ended(pid) {
		return ""
	}
	program, _, _ := strings.Cut(string(command), "\x00")
	return filepath.Base(program)
}

// kill ends all of the cluster's processes and returns when they are gone. Nothing is lost by SIGKILL: what they have
// written is about to be removed.
func (c *Cluster) kill(ctx context.Context) error {
	killed := map[int]bool{}
	return poll(ctx, killTimeout, func() error {
		found := 0
		err := c.eachProcess(func(program string, process *os.Process) error {
			found++
			killed[process.Pid] = true
			if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return fmt.Errorf("kill %s: %w", program, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if found > 0 { // they may have started others before they ended
			return fmt.Errorf("%d processes are there after SIGKILL", found)
		}
		for pid := range killed {
			if !ended(pid) {
				return fmt.Errorf("process %d is there after SIGKILL", pid)
			}
		}
		return nil
	})
}

// ended reports whether a process has ended with all of its threads, so that its files and ports are free. One that is
// about to end cannot be recognized as the cluster's any more.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// The second field is the program's name in parentheses, which may itself hold spaces and parentheses. The state
	// and the number of threads are the third and the twentieth field.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const state, threads = 3 - 3, 20 - 3
	return len(fields) > threads && strings.Contains("ZX", fields[state]) && strings.Contains("01", fields[threads])
}

// poll calls try until it returns nil, and returns what it has returned last when time is up or the context ends.
func poll(ctx context.Context, timeout time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// check returns an error with the end of its log for the first of some programs that does not run.
func (c *Cluster) check(names ...string) error {
	running, err := c.running()
	if err != nil {
		return err
	}
	for _, name := range names {
		if running[name] == 0 {
			return c.explain(name, fmt.Errorf("%s is not running", name))
		}
	}
	return nil
}

// running returns the programs that run, with the number of a process of each.
func (c *Cluster) running() (map[string]int, error) {
	pids := map[string]int{}
	err := c.eachProcess(func(program string, process *os.Process) error {
		pids[program] = process.Pid
		return nil
	})
	return pids, err
}

func (c *Cluster) logFile(name string) string { return c.path("log", name+".log") }

// explain adds to an error of a program where its log is and how it ends.
func (c *Cluster) explain(name string, err error) error {
	const tailLines = 10
	log, readErr := os.ReadFile(c.logFile(name))
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	tail := strings.Join(lines[max(0, len(lines)-tailLines):], "\n  ")
	return fmt.Errorf("%w\n%s ends with:\n  %s", err, c.logFile(name), tail)
}
