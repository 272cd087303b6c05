package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	children["host"] = []int{host.Pid()}
	for _, name := range slices.Sorted(maps.Keys(children)) {
		for _, pid := range children[name] {
			process, err := procfs.NewProc(pid)
			if err != nil {
				return fmt.Errorf("read memory of %s: %w", name, err)
			}
			memory, err := process.ProcSMapsRollup()
			if err != nil {
				return fmt.Errorf("read memory of %s: %w", name, err)
			}
			say("PSS of %-13s %5.0f MiB, anonymous %5.0f MiB", name,
				float64(memory.Pss)/(1<<20), float64(memory.Anonymous)/(1<<20))
		}
	}
	say("")
	return nil
}
