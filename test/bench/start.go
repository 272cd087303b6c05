package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	// settle is how long the host's requests are counted after it is ready and the job is finished.
	settle = 5 * time.Second
	look   = 10 * time.Millisecond
)

// measureStart starts a host where many items are finished, and sets a job at the same moment.
func (b *bench) measureStart(ctx context.Context) (err error) {
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	b.say("A host starts where %d items are finished, and a job is set at the same moment\n", b.items)
	items, err := f.createItems(ctx, b.items, 0, f.finish)
	if err != nil {
		return err
	}
	mark, err := os.Stat(f.controlPlane.AuditLog)
	if err != nil {
		return fmt.Errorf("find audit log: %w", err)
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	began := time.Now()
	r, err := f.launch(ctx)
	if err != nil {
		return err
	}
	done, ready, err := f.firstJob(ctx, r, items[len(items)/2], began)
	if err != nil {
		return err
	}
	memory, err := peakMemory(r.Pid())
	if err != nil {
		return err
	}
	requests, err := f.requests(mark.Size(), r.Pod.Name)
	if err != nil {
		return err
	}
	b.say("ready after          %8.2fs", ready.Seconds())
	b.say("job finished after   %8.2fs", done.Seconds())
	b.say("memory at most       %5.0f MiB", float64(memory)/1024)
	b.say("requests of the host, watches and events aside")
	for _, kind := range slices.Sorted(maps.Keys(requests)) {
		b.say("%8d  %s", requests[kind], kind)
	}
	return nil
}

// firstJob sets a job and tells when it was finished, and when the host was ready.
func (f *fleet) firstJob(ctx context.Context, r *testenv.Replica, item *v1alpha1.DeployItem, began time.Time) (done, ready time.Duration, err error) {
	if err := f.setJob(ctx, item); err != nil {
		return 0, 0, err
	}
	whenReady := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		err := r.WaitReady(ctx)
		ready = time.Since(began)
		whenReady <- err
	}()
	err = f.waitFinished(ctx, []*v1alpha1.DeployItem{item}, look)
	done = time.Since(began)
	if err := errors.Join(err, <-whenReady); err != nil {
		return 0, 0, err
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
	}
	return done, ready, ctx.Err()
}

// finish writes the status of an item whose job has succeeded.
func (f *fleet) finish(ctx context.Context, item *v1alpha1.DeployItem) error {
	now := v1alpha1.Now()
	item.Status = v1alpha1.DeployItemStatus{
		Phase: v1alpha1.DeployItemPhaseSucceeded, ObservedGeneration: item.Generation,
		JobID: "job", JobIDFinished: "job", JobIDGenerationTime: &now, LastReconcileTime: &now,
		TransitionTimes: &v1alpha1.TransitionTimes{TriggerTime: &now, InitTime: &now, FinishedTime: &now},
	}
	if err := f.admin.Status().Update(ctx, item); err != nil {
		return fmt.Errorf("finish item: %w", err)
	}
	return nil
}

// peakMemory is the most memory that a process has had, in KiB.
func peakMemory(pid int) (kib int, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib, nil
		}
	}
	return 0, errors.New("read memory: there is no VmHWM")
}

// requests counts the requests of a user since a place in the audit log, by what they are for.
func (f *fleet) requests(mark int64, user string) (counts map[string]int, err error) {
	log, err := os.Open(f.controlPlane.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if _, err := log.Seek(mark, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	counts = map[string]int{}
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var entry struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource string }
		}
		if err := json.Unmarshal(scanner.Bytes(), &entry); err != nil {
			return nil, fmt.Errorf("decode audit log: %w", err)
		}
		resource := strings.TrimSuffix(entry.ObjectRef.Resource+"/"+entry.ObjectRef.Subresource, "/")
		if entry.User.Username == user && entry.Verb != "watch" && resource != "" && resource != "events" {
			counts[entry.Verb+" "+resource]++
		}
	}
	return counts, scanner.Err()
}
