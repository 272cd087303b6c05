package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/plugins/tracer/trace"
)

const (
	scheduledItems = 5
	// dueTimes is how many due times of all items are counted before one of the replicas is killed, and afterwards once more.
	dueTimes = 25
)

// TestContinuousReconcileOnce: two replicas start one job for each due time, also while one of them is killed.
func TestContinuousReconcileOnce(t *testing.T) {
	f := newFleet(t)
	file := traceFile(t)
	f.options.PluginDir, f.options.Config = pluginDir(t, "tracer"), tracedConfig(t, file, soon)
	replicas := f.start(2)
	namespace := newNamespace(t)
	runs := map[string]*versions{}
	var items []*v1alpha1.DeployItem
	for i := range scheduledItems {
		item := newItem(namespace, fmt.Sprintf("item-%d", i), traceType, tracerConfig(t, map[string]any{"continuousReconcile": every(time.Second)}))
		suspendAtEnd(t, item)
		item = carryOutFirst(t, item)
		items, runs[item.Name] = append(items, item), record(t, item)
	}
	begun := time.Now()

	waitJobs(t, runs, dueTimes)
	killed := pid(t, replicas[0].Host, "tracer")
	f.kill(replicas[0])
	f.deletePod(replicas[0])
	waitJobs(t, runs, countJobs(t, runs)+dueTimes)

	total := 0
	for _, item := range items {
		jobs := jobsOf(runs[item.Name].sofar(t))
		checkApart(t, jobs, time.Second)
		total += len(jobs)
	}
	t.Logf("%d jobs of %d items within %s", total, scheduledItems, time.Since(begun).Round(time.Second))
	checkRunOnce(t, file, killed)
}

// waitJobs waits until so many jobs have begun.
func waitJobs(t *testing.T, runs map[string]*versions, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d jobs", n), func(context.Context) (string, error) {
		if found := countJobs(t, runs); found < n {
			return fmt.Sprintf("%d jobs", found), nil
		}
		return "", nil
	})
}

func countJobs(t *testing.T, runs map[string]*versions) (n int) {
	t.Helper()
	for _, versions := range runs {
		n += len(jobsOf(versions.sofar(t)))
	}
	return n
}

// sofar are the versions that are recorded so far.
func (v *versions) sofar(t *testing.T) []*v1alpha1.DeployItem {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]*v1alpha1.DeployItem(nil), v.seen...)
}

// checkRunOnce checks that the plugin was called once for each job. A call that a process which was killed has begun is made again.
func checkRunOnce(t *testing.T, file trace.File, killed int) {
	t.Helper()
	records, err := file.Read()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]trace.Record{}
	processes := map[int]int{}
	for _, r := range records {
		if r.Step == "Reconcile" {
			calls[r.JobID] = append(calls[r.JobID], r)
			processes[r.PID]++
		}
	}
	for jobID, of := range calls {
		if len(of) > 1 && of[0].PID != killed {
			t.Errorf("job %s was run more than once: %+v", jobID, of)
		}
	}
	t.Logf("calls by process: %v", processes)
}
