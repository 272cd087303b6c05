package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// settle is how long the host's requests are counted after it is ready and the job is finished.
const settle = 5 * time.Second

// measureStart starts a host where many items are finished, and sets a job at the same moment.
func (b *bench) measureStart(ctx context.Context) (err error) {
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	say("A host starts where %d items are finished, and a job is set at the same moment\n", b.items)
	items, err := f.createItems(ctx, b.items, counterType, f.counterConfig(0))
	if err != nil {
		return err
	}
	if err := forEach(ctx, items, f.finish); err != nil {
		return err
	}
	mark, err := f.auditMark()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	began := time.Now()
	host, user, err := f.startCounter(ctx)
	if err != nil {
		return err
	}
	var ready, done time.Duration
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := f.waitReady(both)
		ready = time.Since(began)
		return err
	})
	group.Go(func() error {
		_, err := f.carryOut(both, items[len(items)/2])
		done = time.Since(began)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	say("ready after          %8.2fs", ready.Seconds())
	say("job finished after   %8.2fs", done.Seconds())
	if err := pause(ctx, settle); err != nil {
		return err
	}
	return f.sayCosts(host, user, mark)
}

// sayCosts says what a host has taken since a mark in the audit log.
func (f *fleet) sayCosts(host *testenv.Host, user string, mark int64) error {
	process, err := procfs.NewProc(host.Pid())
	if err != nil {
		return fmt.Errorf("read memory: %w", err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return fmt.Errorf("read memory: %w", err)
	}
	say("memory at most       %5.0f MiB", float64(status.VmHWM)/(1<<20))
	counts, err := countRequests(f.bench, mark, func(r request) string {
		of := r.ObjectRef.Resource
		if r.User.Username != user || of == "" || of == "events" || r.Verb == watchVerb {
			return ""
		}
		return r.kind()
	})
	if err != nil {
		return err
	}
	if err := sayMemory(host); err != nil {
		return err
	}
	say("requests of the host, watches and events aside")
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		say("%8d  %s", counts[kind], kind)
	}
	return nil
}

// finish has the job of an item be done, as if a host had succeeded in it.
func (f *fleet) finish(ctx context.Context, item *v1alpha1.DeployItem) error {
	now := v1alpha1.Now()
	item.Status = v1alpha1.DeployItemStatus{
		Phase: v1alpha1.DeployItemPhaseSucceeded, ObservedGeneration: item.Generation,
		JobID: "job", JobIDFinished: "job", JobIDGenerationTime: &now, LastReconcileTime: &now,
		TransitionTimes: &v1alpha1.TransitionTimes{TriggerTime: &now, InitTime: &now, FinishedTime: &now},
	}
	return f.admin.Status().Update(ctx, item)
}
