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

// throughput of so many replicas.
type throughput struct {
	jobs int
	took time.Duration
	// conflicts are the attempts to take a lock that another replica was faster to take.
	conflicts float64
}

func (t throughput) perSecond() float64 { return float64(t.jobs) / t.took.Seconds() }

// measureReplicas lets 1, 2, ... replicas carry out the same jobs.
func (b *bench) measureReplicas(ctx context.Context) error {
	say("%d jobs of %s each, 4 workers per replica\n", b.jobs, callTakes)
	say("%8s  %8s  %8s  %8s  %17s", "replicas", "time", "jobs/s", "speed-up", "conflicts per job")
	var one throughput
	for n := 1; n <= b.replicas; n++ {
		t, err := b.throughput(ctx, n)
		if err != nil {
			return fmt.Errorf("measure %d replicas: %w", n, err)
		}
		if n == 1 {
			one = t
		}
		say("%8d  %7.1fs  %8.2f  %7.2fx  %17.3f", n, t.took.Seconds(), t.perSecond(), t.perSecond()/one.perSecond(), t.conflicts/float64(t.jobs))
	}
	say("")
	return nil
}

func (b *bench) throughput(ctx context.Context, n int) (t throughput, err error) {
	f, err := b.newFleet(ctx)
	if err != nil {
		return t, err
	}
	items, err := f.createItems(ctx, b.jobs, counterType, f.counterConfig(callTakes))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	for range n {
		if _, _, err := f.startReplica(ctx); err != nil {
			return t, err
		}
	}
	if err := f.waitReady(ctx); err != nil {
		return t, err
	}
	began := time.Now()
	if err := f.carryOut(ctx, items...); err != nil {
		return t, err
	}
	t = throughput{jobs: len(items), took: time.Since(began)}
	for _, host := range f.hosts {
		conflicts, err := host.Metric(ctx, "pergola_lock_conflicts_total")
		if err != nil {
			return t, err
		}
		t.conflicts += conflicts
	}
	return t, nil
}
