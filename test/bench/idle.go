package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// idleSize is the size of the configuration of an idle item, give or take a little.
const idleSize = 10_000

// untilStandby is how long a host may take to end a plugin without deploy items.
const untilStandby = 70 * time.Second

// measureIdle says how much memory a host and its plugins need that have nothing to do.
func (b *bench) measureIdle(ctx context.Context) (err error) {
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	say("A host with all plugins where %d items of %d bytes are finished", b.idle, idleSize)
	items, err := f.createItems(ctx, b.idle, v1alpha2.Type, func(name string) fields {
		return f.configMap(name, strings.Repeat("x", idleSize))
	})
	if err != nil {
		return err
	}
	if err := forEach(ctx, items, f.finish); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	host, _, err := f.startReplica(ctx, f.deployers, "")
	if err != nil {
		return err
	}
	if err := errors.Join(f.waitReady(ctx), pause(ctx, untilStandby)); err != nil {
		return err
	}
	return sayMemory(host)
}

// sayMemory says how much memory a host and its plugins have, where shared pages count for each process in part, and
// how much of it is anonymous: what a process has of its program's file depends on the page cache and other processes.
func sayMemory(host *testenv.Host) error {
	children, err := host.Children()
	if err != nil {
		return err
	}
	var lines []string
	for _, pid := range slices.Concat(slices.Collect(maps.Values(children))...) {
		line, err := memoryOf(pid)
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	line, err := memoryOf(host.Pid())
	if err != nil {
		return err
	}
	slices.Sort(lines)
	say("%s\n%s\n", line, strings.Join(lines, "\n"))
	return nil
}

// memoryOf describes the memory of a process, which goes by the name that it was started with.
func memoryOf(pid int) (string, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return "", fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	command, err := process.CmdLine()
	if err != nil {
		return "", fmt.Errorf("read name of process %d: %w", pid, err)
	}
	memory, err := process.ProcSMapsRollup()
	if err != nil {
		return "", fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	return fmt.Sprintf("PSS of %-13s %5.0f MiB, anonymous %5.0f MiB", filepath.Base(command[0]),
		float64(memory.Pss)/(1<<20), float64(memory.Anonymous)/(1<<20)), nil
}
