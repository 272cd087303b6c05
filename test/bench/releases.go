package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/bench/many"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// tick is the unit of /proc/PID/stat, the same for all machines that Go runs on.
const tick = 10 * time.Millisecond

// measureReleases lets the helm deployer carry out many items with a small chart each, as releases.
func (b *bench) measureReleases(ctx context.Context) (err error) {
	b.say("%d items, each a release of a chart with two ConfigMaps", b.releases)
	host, err := b.startDeployers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopHost(ctx, host)) }()
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	if err := f.createTarget(ctx); err != nil {
		return err
	}
	items, err := f.createReleases(ctx)
	if err != nil {
		return err
	}
	for _, step := range []string{"installed", "unchanged", "unchanged"} {
		if err := f.measureJobs(ctx, step, host.Pid(), items); err != nil {
			return fmt.Errorf("measure releases, %s: %w", step, err)
		}
	}
	b.say("")
	return nil
}

// createReleases creates the items, all with the same archive.
func (f *fleet) createReleases(ctx context.Context) ([]*v1alpha1.DeployItem, error) {
	var items []*v1alpha1.DeployItem
	for i := range f.releases {
		name := fmt.Sprintf("release-%03d", i)
		config, err := json.Marshal(map[string]any{
			"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": "ProviderConfiguration", "name": name, "namespace": f.namespace,
			"chart": map[string]any{"archive": map[string]any{"raw": charts.Pack("plain")}}, // JSON has bytes in base64
		})
		if err != nil {
			return nil, fmt.Errorf("marshal configuration: %w", err)
		}
		items = append(items, f.newItem(name, helmv1alpha1.Type, config))
	}
	return items, forEach(ctx, items, func(ctx context.Context, item *v1alpha1.DeployItem) error {
		if err := f.admin.Create(ctx, item); err != nil {
			return fmt.Errorf("create item: %w", err)
		}
		return nil
	})
}

// measureJobs sets a job for each item, waits for all of them, and says what they have cost the API server, host and plugin.
func (f *fleet) measureJobs(ctx context.Context, what string, host int, items []*v1alpha1.DeployItem) error {
	mark, err := os.Stat(f.controlPlane.AuditLog)
	if err != nil {
		return fmt.Errorf("find audit log: %w", err)
	}
	before, err := cpuTime(host)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := errors.Join(forEach(ctx, items, f.setJob), f.waitFinished(ctx, items, look)); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := cpuTime(host)
	if err != nil {
		return err
	}
	jobs := float64(len(items))
	var requests [2]float64
	for i, agent := range []string{"pergola-helm", "pergola"} {
		counts, err := many.CountRequests(f.controlPlane.AuditLog, mark.Size(), agent)
		if err != nil {
			return err
		}
		requests[i] = float64(counts.All()) / jobs
	}
	f.say("%-10s %5.1f jobs/s  per job: %4.1f requests to the target, %4.1f with those of the host, %5.1f ms CPU of host and plugin",
		what, jobs/took.Seconds(), requests[0], requests[1], float64((after-before).Milliseconds())/jobs)
	return nil
}

// cpuTime is how much processor time a process and those below it have used, the ended ones included.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before may have spaces
	fields := strings.Fields(rest)
	const firstOfTimes, times = 11, 4 // utime, stime, and those of the children that have ended
	if len(fields) < firstOfTimes+times {
		return 0, fmt.Errorf("read processor time: /proc/%d/stat has %d fields", pid, len(fields))
	}
	var sum time.Duration
	for _, field := range fields[firstOfTimes : firstOfTimes+times] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	children, err := testenv.Children(pid)
	if err != nil {
		return 0, err
	}
	for _, child := range slices.Concat(slices.Collect(maps.Values(children))...) {
		used, err := cpuTime(child)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has ended meanwhile, and counts with its parent the next time
		}
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}
