package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// callTakes is how long the deployer works for a job. It waits, so that the replicas do not compete for this
// machine's processors.
const callTakes = time.Second

// measureReplicas lets 1, 2, ... replicas carry out the same jobs.
func (b *bench) measureReplicas(ctx context.Context) error {
	say("%d jobs of %s each, 4 workers per replica\n", b.jobs, callTakes)
	say("%8s  %8s  %8s  %8s  %17s", "replicas", "time", "jobs/s", "speed-up", "conflicts per job")
	var one float64 // the time of one replica
	for n := 1; n <= b.replicas; n++ {
		took, conflicts, err := b.throughput(ctx, n)
		if err != nil {
			return fmt.Errorf("measure %d replicas: %w", n, err)
		}
		if n == 1 {
			one = took
		}
		jobs := float64(b.jobs)
		say("%8d  %7.1fs  %8.2f  %7.2fx  %17.3f", n, took, jobs/took, one/took, conflicts/jobs)
	}
	say("")
	return nil
}

// throughput returns how many seconds so many replicas need, and how often one of them did not get a lock because
// another one was faster.
func (b *bench) throughput(ctx context.Context, n int) (took, conflicts float64, err error) {
	f, err := b.newFleet(ctx)
	if err != nil {
		return 0, 0, err
	}
	items, err := f.createItems(ctx, b.jobs, counterType, f.counterConfig(callTakes))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	for range n {
		if _, _, err := f.startCounter(ctx); err != nil {
			return 0, 0, err
		}
	}
	if err := f.waitReady(ctx); err != nil {
		return 0, 0, err
	}
	all, err := f.carryOut(ctx, items...)
	if err != nil {
		return 0, 0, err
	}
	for _, host := range f.hosts {
		of, err := host.Metric(ctx, "pergola_lock_conflicts_total")
		if err != nil {
			return 0, 0, err
		}
		conflicts += of
	}
	return all.Seconds(), conflicts, nil
}
