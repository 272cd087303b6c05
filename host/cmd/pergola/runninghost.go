package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/rundir"
)

// hostFinder finds the host that a command talks to.
type hostFinder struct {
	runDir string
	pid    int
}

func (f *hostFinder) addTo(flags *pflag.FlagSet) {
	addRunDir(flags, &f.runDir)
	flags.IntVar(&f.pid, "pid", 0, "process id of the host, where several are running")
}

// noHostError says that there is no host to talk to.
type noHostError struct {
	base string
}

func (e *noHostError) Error() string {
	return "no host of this user is running with the run directory " + e.base + "; if it has another one, name that with --run-dir"
}

// find returns a client for the host. The error is a *noHostError if none is running.
func (f *hostFinder) find(ctx context.Context) (*control.Client, error) {
	living, err := rundir.Living(ctx, f.runDir)
	if err != nil {
		return nil, fmt.Errorf("find the host: %w", err)
	}
	hosts := slices.DeleteFunc(living, func(e rundir.Entry) bool {
		_, err := os.Lstat(filepath.Join(e.Path, control.SocketName))
		return err != nil // a command that has started plugins itself, or a host that is starting or stopping
	})
	host, err := choose(hosts, f.pid, f.runDir)
	if err != nil {
		return nil, err
	}
	return control.NewClient(host.Path), nil
}

// choose returns the one host, or the one with a process id, if that is not zero.
func choose(hosts []rundir.Entry, pid int, base string) (rundir.Entry, error) {
	var pids []string
	for _, host := range hosts {
		if host.Pid == pid {
			return host, nil
		}
		pids = append(pids, strconv.Itoa(host.Pid))
	}
	running := strings.Join(pids, ", ")
	switch {
	case len(hosts) == 0:
		return rundir.Entry{}, &noHostError{base: base}
	case pid != 0:
		return rundir.Entry{}, fmt.Errorf("no host has the process id %d; running: %s", pid, running)
	case len(hosts) > 1:
		return rundir.Entry{}, fmt.Errorf("several hosts are running, with the process ids %s; choose one with --pid", running)
	default:
		return hosts[0], nil
	}
}
