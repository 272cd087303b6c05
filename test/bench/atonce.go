package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

const (
	// rounds is how often host and bare loop take turns.
	rounds = 3
	// inSequence is how many jobs an idle system gets, one after the other.
	inSequence = 100
)

// The columns of the tables, and the user agents of those that they are about. What the API server and etcd use counts
// with the host or the loop that they have worked for.
const hostColumn, pluginColumn, loopColumn = "host", "plugin", "bare loop"

var agents = map[string]string{
	hostColumn: "pergola-host/", pluginColumn: "pergola-manifest/", loopColumn: loopAgent,
}

// The rows of the tables, per job, but for those of requests of a kind.
const (
	rateRow     = "jobs/s"
	cpuRow      = "CPU, ms"
	serverRow   = "CPU of API server and etcd, ms"
	requestsRow = "requests"
)

// figures are the figures of each round by row and column.
type figures map[string]map[string][]float64

func (f figures) add(row, column string, figure float64) {
	if f[row] == nil {
		f[row] = map[string][]float64{}
	}
	f[row][column] = append(f[row][column], figure)
}

// The tables.
const (
	createdStep  = "created, without a job yet"
	firstStep    = "first job"
	secondStep   = "second job, nothing to do"
	sequenceStep = "one job after the other"
	watchesStep  = "watches that were open"
)

var steps = []string{createdStep, firstStep, secondStep, sequenceStep, watchesStep}

// measureAtOnce lets a host with the manifest plugin, and the bare loop, carry out many small jobs at once, and then
// one after the other.
func (b *bench) measureAtOnce(ctx context.Context) error {
	for _, locks := range []bool{true, false} {
		tables := map[string]figures{}
		for _, step := range steps {
			tables[step] = figures{}
		}
		for range rounds {
			for _, column := range []string{hostColumn, loopColumn} {
				if err := b.measureTurn(ctx, locks, column, tables); err != nil {
					return fmt.Errorf("measure many jobs of %s: %w", column, err)
				}
			}
		}
		for _, step := range steps {
			say("%d items with a ConfigMap each, locks %t: %s. Median of %d rounds (least-most)\n", b.atOnce, locks, step, rounds)
			tables[step].say()
		}
	}
	return nil
}

// measureTurn adds a round of the host or the loop to the tables.
func (b *bench) measureTurn(ctx context.Context, locks bool, column string, tables map[string]figures) (err error) {
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	begin, err := b.auditMark()
	if err != nil {
		return err
	}
	pid, end, err := f.startWorker(ctx, locks, column)
	if err != nil {
		return err
	}
	stop := sync.OnceValue(end)
	defer func() { err = errors.Join(err, stop()) }()
	mark, err := b.auditMark()
	if err != nil {
		return err
	}
	items, err := f.createItems(ctx, b.atOnce, v1alpha2.Type, f.configMap)
	if err != nil {
		return err
	}
	if err := b.waitQuiet(ctx, mark); err != nil {
		return err
	}
	if err := b.addRequests(mark, float64(b.atOnce), request.work, tables[createdStep]); err != nil {
		return err
	}
	for _, step := range []string{firstStep, secondStep} {
		if err := f.measureStep(ctx, column, pid, items, tables[step]); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	if err := f.measureSequence(ctx, column, items[0], tables[sequenceStep]); err != nil {
		return err
	}
	if err := errors.Join(stop(), b.waitQuiet(ctx, begin)); err != nil {
		return err
	}
	if column == loopColumn {
		if err := f.measureRequests(ctx, locks, items[0], tables[sequenceStep]); err != nil {
			return err
		}
	}
	return b.addRequests(begin, 1, func(r request) string {
		if r.Verb == watchVerb {
			return r.kind()
		}
		return ""
	}, tables[watchesStep])
}

// startWorker starts a host, and waits until it is ready, or the bare loop.
func (f *fleet) startWorker(ctx context.Context, locks bool, column string) (pid int, stop func() error, err error) {
	if column == loopColumn {
		return f.startLoop(ctx, locks)
	}
	host, _, err := f.startReplica(ctx, f.deployers, fmt.Sprintf("pluginFiles: [manifest]\nlocking: %t\n", locks))
	if err != nil {
		return 0, nil, err
	}
	stop = func() error { return f.stop(ctx) }
	if err := f.waitReady(ctx); err != nil {
		return 0, nil, errors.Join(err, stop())
	}
	return host.Pid(), stop, nil
}

// configMap is the configuration of an item that has one ConfigMap of its name.
func (f *fleet) configMap(name string) fields {
	return fields{
		"apiVersion": v1alpha2.GroupVersion.String(), "kind": v1alpha2.ProviderConfigurationKind,
		"manifests": []any{fields{"manifest": fields{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"name": name, "namespace": f.namespace},
			"data": fields{"key": "value"},
		}}},
	}
}

// measureStep sets a job for each item at once, and adds what the jobs have cost.
func (f *fleet) measureStep(
	ctx context.Context, column string, pid int, items []*v1alpha1.DeployItem, table figures,
) error {
	mark, err := f.auditMark()
	if err != nil {
		return err
	}
	before, err := cpuOf(pid, column)
	if err != nil {
		return err
	}
	took, err := f.carryOutTimed(ctx, items...)
	if err != nil {
		return err
	}
	if err := f.waitQuiet(ctx, mark); err != nil { // events are sent later, and locks given back
		return err
	}
	after, err := cpuOf(pid, column)
	if err != nil {
		return err
	}
	jobs := float64(len(items))
	table.add(rateRow, column, jobs/took.Seconds())
	for what, seconds := range after {
		table.add(what.row, what.column, (seconds-before[what])*1000/jobs)
	}
	return f.addRequests(mark, jobs, request.work, table)
}

// addRequests adds the requests per job since a mark by what they are; those that are "" do not count.
func (b *bench) addRequests(mark int64, jobs float64, what func(request) string, table figures) error {
	for column, agent := range agents {
		counts, err := b.count(mark, func(r request) string {
			if !strings.HasPrefix(r.UserAgent, agent) {
				return ""
			}
			return what(r)
		})
		if err != nil {
			return err
		}
		if len(counts) > 0 {
			table.add(requestsRow, column, float64(sum(counts))/jobs)
		}
		for kind, n := range counts {
			table.add(kind, column, float64(n)/jobs)
		}
	}
	return nil
}

type cell struct{ row, column string }

// cpuOf is how many seconds of processor time were used, by the cells of the table that they count for.
func cpuOf(pid int, column string) (map[cell]float64, error) {
	own, below, err := cpuSeconds(pid)
	if err != nil {
		return nil, err
	}
	_, all, err := cpuSeconds(os.Getpid())
	cpu := map[cell]float64{{cpuRow, column}: own, {serverRow, column}: all - own - below}
	if column == hostColumn {
		cpu[cell{cpuRow, pluginColumn}] = below
	}
	return cpu, err
}

// waitQuiet waits until the hosts and the loop send no requests since a mark any more, but for Leases.
func (b *bench) waitQuiet(ctx context.Context, mark int64) error {
	for last := -1; ; {
		counts, err := b.countRequests(mark, func(r request) string {
			for _, agent := range agents {
				if strings.HasPrefix(r.UserAgent, agent) && r.ObjectRef.Resource != "leases" {
					return r.Verb
				}
			}
			return ""
		})
		if err != nil || sum(counts) == last {
			return err
		}
		last = sum(counts)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carryOutTimed sets jobs for items, and returns how long it took from the first one's beginning until the last one
// was seen finished by a watch.
func (f *fleet) carryOutTimed(ctx context.Context, items ...*v1alpha1.DeployItem) (took time.Duration, err error) {
	now := &v1alpha1.DeployItemList{}
	if err := f.admin.List(ctx, now, client.InNamespace(f.namespace), client.Limit(1)); err != nil {
		return 0, fmt.Errorf("list items: %w", err)
	}
	last := map[string]string{}
	for _, item := range items {
		last[item.Name] = item.Status.JobID
	}
	group, ctx := errgroup.WithContext(ctx)
	events, err := f.watchItems(ctx, now.ResourceVersion)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	group.Go(func() error { return forEach(ctx, items, f.setJob) })
	var finished map[string]*v1alpha1.DeployItem
	group.Go(func() (err error) {
		finished, err = f.awaitFinished(ctx, events, now.ResourceVersion, last)
		took = time.Since(began)
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	for _, item := range items {
		*item = *finished[item.Name]
	}
	return took, nil
}

// awaitFinished returns items once each of them has finished another job than its last one.
func (f *fleet) awaitFinished(
	ctx context.Context, events watch.Interface, seen string, last map[string]string,
) (finished map[string]*v1alpha1.DeployItem, err error) {
	defer func() { events.Stop() }()
	finished = map[string]*v1alpha1.DeployItem{}
	for len(finished) < len(last) {
		event, open := <-events.ResultChan()
		if !open { // the API server closes a watch that it finds slow
			again, err := f.watchItems(ctx, seen)
			if err != nil {
				return nil, err
			}
			events = again
			continue
		}
		item, ok := event.Object.(*v1alpha1.DeployItem)
		if !ok {
			return nil, fmt.Errorf("watch items: unexpected event %v", event)
		}
		seen = item.ResourceVersion
		switch s := item.Status; {
		case s.JobID != s.JobIDFinished || s.JobID == last[item.Name]:
		case s.Phase != v1alpha1.DeployItemPhaseSucceeded:
			return nil, fmt.Errorf("the job of item %s has not succeeded: %+v", item.Name, s.LastError)
		default:
			finished[item.Name] = item
		}
	}
	return finished, nil
}

func (f *fleet) watchItems(ctx context.Context, since string) (watch.Interface, error) {
	events, err := f.admin.Watch(ctx, &v1alpha1.DeployItemList{}, client.InNamespace(f.namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}})
	if err != nil {
		return nil, fmt.Errorf("watch items: %w", err)
	}
	return events, nil
}

// measureSequence adds how long jobs of one item take from the request that sets them until they are seen finished,
// while there is nothing else to do.
func (f *fleet) measureSequence(ctx context.Context, column string, item *v1alpha1.DeployItem, table figures) error {
	var tooks []time.Duration
	for range inSequence {
		took, err := f.carryOutTimed(ctx, item)
		if err != nil {
			return err
		}
		tooks = append(tooks, took)
		if err := pause(ctx, look); err != nil { // for what follows the end of a job
			return err
		}
	}
	table.add("ms until it is finished, p50", column, milliseconds(tooks))
	return nil
}

// measureRequests adds how long the requests of such a job take alone, one after the other, with nobody who watches.
func (f *fleet) measureRequests(ctx context.Context, locks bool, item *v1alpha1.DeployItem, table figures) error {
	l, err := newLoop(f.controlPlane.Config, locks)
	if err != nil {
		return err
	}
	var known remembered
	var tooks []time.Duration
	for i := range inSequence + 1 {
		began := time.Now()
		if err := f.setJob(ctx, item); err != nil {
			return err
		}
		if err := errors.Join(l.acquire(ctx, item, &known), l.carryOut(ctx, item)); err != nil {
			return fmt.Errorf("carry out job: %w", err)
		}
		if i > 0 { // the first one finds the lock
			tooks = append(tooks, time.Since(began))
		}
		if err := l.release(ctx, &known); err != nil {
			return fmt.Errorf("release lock: %w", err)
		}
	}
	table.add("ms of the requests alone, p50", loopColumn, milliseconds(tooks))
	return nil
}

func milliseconds(durations []time.Duration) float64 {
	slices.Sort(durations)
	return float64(durations[len(durations)/2].Microseconds()) / 1000
}

// say prints the table. Where there is nothing in a round there was nothing to count.
func (f figures) say() {
	first := []string{rateRow, cpuRow, serverRow, requestsRow}
	rows := slices.DeleteFunc(slices.Sorted(maps.Keys(f)), func(row string) bool { return slices.Contains(first, row) })
	const format = "%-32s %22s %22s %22s %8s"
	say(format, "", hostColumn, pluginColumn, loopColumn, "ratio")
	for _, row := range slices.Concat(first, rows) {
		if f[row] == nil {
			continue
		}
		medians, texts := map[string]float64{}, map[string]string{}
		for column, all := range f[row] {
			all = append(all, make([]float64, rounds-len(all))...)
			slices.Sort(all)
			medians[column] = all[len(all)/2]
			texts[column] = fmt.Sprintf("%.2f (%.2f-%.2f)", medians[column], all[0], all[len(all)-1])
		}
		ratio := ""
		if ours, floor := medians[hostColumn]+medians[pluginColumn], medians[loopColumn]; ours > 0 && floor > 0 {
			ratio = fmt.Sprintf("%.2f", ours/floor)
		}
		say(format, row, texts[hostColumn], texts[pluginColumn], texts[loopColumn], ratio)
	}
	say("")
}
