package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

const (
	// rounds is how often a new host is measured.
	rounds = 3
	// inSequence is how many jobs an idle system gets, one after the other.
	inSequence = 100
)

// The tables.
const (
	createdStep  = "created, without a job yet"
	firstStep    = "first job"
	secondStep   = "second job, nothing to do"
	sequenceStep = "one job after the other"
	watchesStep  = "watches that were open"
)

var steps = []string{createdStep, firstStep, secondStep, sequenceStep, watchesStep}

// measureAtOnce lets a host with the manifest plugin carry out many small jobs at once, and then one after the other.
func (b *bench) measureAtOnce(ctx context.Context) error {
	for _, locks := range []bool{true, false} {
		tables := map[string]figures{}
		for _, step := range steps {
			tables[step] = figures{}
		}
		for range rounds {
			if err := b.measureRound(ctx, locks, tables); err != nil {
				return fmt.Errorf("measure many jobs: %w", err)
			}
		}
		for _, step := range steps {
			say("%d items of a ConfigMap each, locks %t: %s", b.atOnce, locks, step)
			tables[step].say()
		}
	}
	return nil
}

// measureRound adds a round to the tables.
func (b *bench) measureRound(ctx context.Context, locks bool, tables map[string]figures) (err error) {
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	begin, err := b.auditMark()
	if err != nil {
		return err
	}
	host, _, err := f.startReplica(ctx, f.deployers, fmt.Sprintf("pluginFiles: [manifest]\nlocking: %t\n", locks))
	if err != nil {
		return err
	}
	stop := sync.OnceValue(func() error { return f.stop(ctx) })
	defer func() { err = errors.Join(err, stop()) }()
	if err := f.waitReady(ctx); err != nil {
		return err
	}
	if err := b.waitQuiet(ctx, begin); err != nil { // it looks at the items of the rounds before
		return err
	}
	mark, err := b.auditMark()
	if err != nil {
		return err
	}
	items, err := f.createItems(ctx, b.atOnce, v1alpha2.Type, func(name string) fields {
		return f.configMap(name, "text")
	})
	if err != nil {
		return err
	}
	if err := b.waitQuiet(ctx, mark); err != nil {
		return err
	}
	if err := b.addRequests(mark, float64(b.atOnce), tables[createdStep]); err != nil {
		return err
	}
	for _, step := range []string{firstStep, secondStep} {
		if err := f.measureStep(ctx, host.Pid(), items, tables[step]); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	if err := f.measureSequence(ctx, items[0], tables[sequenceStep]); err != nil {
		return err
	}
	if err := errors.Join(stop(), b.waitQuiet(ctx, begin)); err != nil {
		return err
	}
	return b.addWatches(begin, tables[watchesStep])
}

// configMap is the configuration of an item that has one ConfigMap of its name.
func (f *fleet) configMap(name, text string) fields {
	return fields{
		"apiVersion": v1alpha2.GroupVersion.String(), "kind": v1alpha2.ProviderConfigurationKind,
		"manifests": []any{fields{"manifest": fields{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"name": name, "namespace": f.namespace},
			"data": fields{"text": text},
		}}},
	}
}

// measureStep sets a job for each item at once, and adds what the jobs have cost.
func (f *fleet) measureStep(ctx context.Context, pid int, items []*v1alpha1.DeployItem, table figures) error {
	mark, err := f.auditMark()
	if err != nil {
		return err
	}
	before, err := cpuOf(pid)
	if err != nil {
		return err
	}
	took, err := f.carryOut(ctx, items...)
	if err != nil {
		return err
	}
	if err := f.waitQuiet(ctx, mark); err != nil { // events are sent later, and locks given back
		return err
	}
	after, err := cpuOf(pid)
	if err != nil {
		return err
	}
	jobs := float64(len(items))
	table.add(rateRow, hostColumn, jobs/took.Seconds())
	for what, seconds := range after {
		table.add(what.row, what.column, (seconds-before[what])*1000/jobs)
	}
	return f.addRequests(mark, jobs, table)
}

// addRequests adds the requests per job since a mark, watches aside.
func (b *bench) addRequests(mark int64, jobs float64, table figures) error {
	counts, err := countRequests(b, mark, func(r request) (c cell) {
		if column := r.column(); column != "" && r.Verb != watchVerb {
			c = cell{r.kind(), column}
		}
		return c
	})
	all := map[string]int{}
	for of, n := range counts {
		table.add(of.row, of.column, float64(n)/jobs)
		all[of.column] += n
	}
	for column, n := range all {
		table.add(allRow, column, float64(n)/jobs)
	}
	return err
}

// addWatches adds the watches since a mark, which have ended meanwhile.
func (b *bench) addWatches(mark int64, table figures) error {
	counts, err := countRequests(b, mark, func(r request) (c cell) {
		// The API server refuses some while it gets ready for a kind.
		if column := r.column(); column != "" && r.Verb == watchVerb && r.ResponseStatus.Code == http.StatusOK {
			c = cell{r.kind(), column}
		}
		return c
	})
	for of, n := range counts {
		table.add(of.row, of.column, float64(n))
	}
	return err
}

// cpuOf is how many seconds of processor time were used, by the cells of the table that they count for.
func cpuOf(pid int) (map[cell]float64, error) {
	own, below, err := cpuSeconds(pid)
	if err != nil {
		return nil, err
	}
	_, all, err := cpuSeconds(os.Getpid())
	return map[cell]float64{
		{cpuRow, hostColumn}: own, {cpuRow, pluginColumn}: below, {serverRow, hostColumn}: all - own - below,
	}, err
}

// measureSequence adds how long a job takes while there is nothing else to do.
func (f *fleet) measureSequence(ctx context.Context, item *v1alpha1.DeployItem, table figures) error {
	var all []time.Duration
	for range inSequence {
		took, err := f.carryOut(ctx, item)
		if err != nil {
			return err
		}
		all = append(all, took)
		const afterwards = 20 * time.Millisecond // for what follows the end of a job
		if err := pause(ctx, afterwards); err != nil {
			return err
		}
	}
	slices.Sort(all)
	table.add("ms until it is finished, p50", hostColumn, float64(all[len(all)/2].Microseconds())/1000)
	return nil
}
