package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// judge prints the figures. The error says all that must not be.
func (s *soak) judge(ctx context.Context, w *world, t *trouble) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	phases, again := w.observer.tally()
	s.say("trouble: %s", t)
	s.say("jobs seen to end: %d succeeded, %d failed", phases[v1alpha1.DeployItemPhaseSucceeded], phases[v1alpha1.DeployItemPhaseFailed])
	if failed := phases[v1alpha1.DeployItemPhaseFailed]; failed > 0 {
		wrong("%d jobs have failed, though whatever stood in their way has passed", failed)
	}
	for _, what := range again {
		wrong("%s", what)
	}

	calls, err := readEvidence(w.evidence, t.restarts)
	if err != nil {
		return err
	}
	s.say("calls of the plugin counter: %d for %d jobs, %d of them again because their process, their host or the API server had died", calls.calls, calls.jobs, calls.repeated)
	for _, what := range calls.overlaps {
		wrong("two calls for one item at the same time: %s", what)
	}
	for _, what := range calls.afterEnd {
		wrong("called again though nothing had kept the host from writing that it had succeeded: %s", what)
	}
	for _, f := range w.memory.figures() {
		s.say("%s: %.0f at the beginning, %.0f at the end", f.what, f.start, f.end)
		if f.grown() {
			wrong("grown: %s, from %.0f to %.0f", f.what, f.start, f.end)
		}
	}
	left, err := w.leftBehind(ctx)
	if err != nil {
		return err
	}
	for _, what := range left {
		wrong("%s", what)
	}
	return errors.Join(errs...)
}

// leftBehind says what is not as it has to be: what the target lacks, and locks of replicas that are gone.
func (w *world) leftBehind(ctx context.Context) (wrong []string, err error) {
	settings := &corev1.ConfigMapList{}
	if err := w.admin.List(ctx, settings, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list ConfigMaps: %w", err)
	}
	there := 0
	for _, c := range settings.Items {
		if strings.HasPrefix(c.Name, "manifest-") && c.Data["key"] == "value" {
			there++
		}
	}
	if want := w.items / 2; there != want {
		wrong = append(wrong, fmt.Sprintf("of %d ConfigMaps only %d are on the target", want, there))
	}
	locks := &v1alpha1.SyncObjectList{}
	if err := w.admin.List(ctx, locks, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list locks: %w", err)
	}
	if len(locks.Items) != w.items {
		wrong = append(wrong, fmt.Sprintf("there are %d locks of %d items", len(locks.Items), w.items))
	}
	for _, lock := range locks.Items {
		if holder := lock.Spec.PodName; holder != "" && !slices.ContainsFunc(w.fleet, func(r *testenv.Replica) bool { return r.Pod.Name == holder }) {
			wrong = append(wrong, fmt.Sprintf("lock %s is held by %s, which is gone", lock.Name, holder))
		}
	}
	return wrong, nil
}

// evidence is what the calls of the plugin counter have left.
type evidence struct {
	restarts              []time.Time
	calls, jobs, repeated int
	overlaps, afterEnd    []string
}

// record is a line of it.
type record struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`
	Outcome string    `json:"outcome"`
	JobID   string    `json:"jobID"`
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
}

// readEvidence reads it all. restarts are those of the API server.
func readEvidence(dir string, restarts []time.Time) (*evidence, error) {
	e := &evidence{restarts: restarts}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	for _, log := range logs {
		records, err := readRecords(log)
		if err != nil {
			return nil, err
		}
		e.add(records)
	}
	overlaps, err := readRecords(filepath.Join(dir, "overlaps"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, r := range overlaps {
		e.overlaps = append(e.overlaps, fmt.Sprintf("%s, job %s, process %d at %s", r.Name, r.JobID, r.PID, r.Time))
	}
	return e, nil
}

// add adds the records of one item. A call that has succeeded is made again only if its host could not write so: it was killed, and another one
// makes it, or the API server was.
func (e *evidence) add(records []record) {
	begun, succeeded := map[string]int{}, map[string]record{}
	for _, r := range records {
		switch {
		case r.Event == "end" && r.Outcome == "succeeded":
			succeeded[r.JobID] = r
		case r.Event == "begin":
			e.calls++
			if begun[r.JobID]++; begun[r.JobID] > 1 {
				e.repeated++
			}
			if before, ok := succeeded[r.JobID]; ok && before.PID == r.PID && !e.restarted(before.Time, r.Time) {
				e.afterEnd = append(e.afterEnd, fmt.Sprintf("%s, job %s, process %d at %s", r.Name, r.JobID, r.PID, r.Time))
			}
		}
	}
	e.jobs += len(begun)
}

// writeTakes is how long after a call a host may be writing its outcome, on a machine that is busy.
const writeTakes = 5 * time.Second

// restarted tells whether the API server was killed between two times, or when a write that began before the first one was under way.
func (e *evidence) restarted(from, to time.Time) bool {
	return slices.ContainsFunc(e.restarts, func(at time.Time) bool { return at.After(from.Add(-writeTakes)) && at.Before(to) })
}

func readRecords(path string) ([]record, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read evidence: %w", err)
	}
	var records []record
	for line := range strings.Lines(string(content)) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("read evidence of %s: %w", filepath.Base(path), err)
		}
		records = append(records, r)
	}
	return records, nil
}
