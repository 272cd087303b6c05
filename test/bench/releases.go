package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/procfs"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// measureReleases lets the helm deployer carry out many items with a small chart each, as releases.
func (b *bench) measureReleases(ctx context.Context) (err error) {
	say("%d items, each a release of a chart with two ConfigMaps", b.releases)
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	host, err := f.startDeployers(ctx)
	if err != nil {
		return err
	}
	if err := f.waitReady(ctx); err != nil {
		return err
	}
	mark, err := f.auditMark()
	if err != nil {
		return err
	}
	items, err := f.createItems(ctx, b.releases, helmv1alpha1.Type, func(name string) fields {
		return fields{
			"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": "ProviderConfiguration", "name": name,
			"namespace": f.namespace,
			"chart":     fields{"archive": fields{"raw": charts.Pack("plain")}}, // JSON has bytes in base64
		}
	})
	if err != nil {
		return err
	}
	// It looks at the items, which have no job yet.
	if err := errors.Join(f.waitQuiet(ctx, mark), pause(ctx, untilStandby)); err != nil {
		return err
	}
	for _, step := range []string{"installed", "unchanged", "unchanged"} {
		table := figures{}
		if err := f.measureStep(ctx, host.Pid(), items, table); err != nil {
			return fmt.Errorf("measure releases, %s: %w", step, err)
		}
		say("%s", step)
		table.say()
	}
	return nil
}

// cpuSeconds is how much processor time a process and those below it have used, the ended ones included.
func cpuSeconds(of int) (own, below float64, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, 0, fmt.Errorf("read processor time: %w", err)
	}
	parents, used := map[int]int{}, map[int]float64{}
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended meanwhile, and counts with its parent the next time
		}
		const ticksPerSecond = 100 // on all machines that Go runs on
		ended := float64(stat.CUTime+stat.CSTime) / ticksPerSecond
		if p.PID == of {
			own, below = stat.CPUTime(), ended
			continue
		}
		parents[p.PID], used[p.PID] = stat.PPID, stat.CPUTime()+ended
	}
	for pid, seconds := range used {
		for pid != 0 && pid != of {
			pid = parents[pid]
		}
		if pid == of {
			below += seconds
		}
	}
	return own, below, nil
}
