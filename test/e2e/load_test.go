package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	loadItems   = 200
	loadWorkers = 4
	// queuedTimeout of the jobs that have to wait is shorter than they wait.
	queuedTimeout = 5 * time.Second
	// loadPatience bounds how long all of them together take.
	loadPatience = 3 * time.Minute
)

// workersConfig writes a HostConfiguration with so many workers and returns its path.
func workersConfig(t *testing.T, workers int) string {
	t.Helper()
	return writeConfig(t, fmt.Sprintf("%sworkers: %d\n", anyConfig, workers))
}

// TestPickUpUnderLoad: however many jobs there are and however slow the deployer is, Landscaper sees each of them
// picked up, and none fails because it had to wait for its turn.
func TestPickUpUnderLoad(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "counter"), Config: workersConfig(t, loadWorkers)})
	l := &load{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	l.createAll()
	mark := markAudit(t)

	// The first jobs hold all workers. They may take as long as they like.
	l.trigger(l.items[:loadWorkers])
	l.eventually("all workers to be busy", func(context.Context) (string, error) {
		return l.calls(loadWorkers), nil
	})
	began := time.Now()
	l.trigger(l.items[loadWorkers:])
	triggered := time.Since(began)
	l.eventually("all jobs to be picked up", l.allPickedUp)
	pickedUp := time.Since(began)

	// If their time ran while they wait, it would be over for all of them now.
	l.eventually("the timeouts to pass", l.allWaitedTooLong)
	if found := l.calls(loadWorkers); found != "" {
		t.Errorf("the calls under way have changed: %s", found)
	}
	released := time.Now()
	touch(t, filepath.Join(l.dir, "release"))
	l.eventually("all jobs to be finished", l.allFinished)
	t.Logf("%d jobs set in %s and all picked up after %s; after the release carried out in %s", loadItems-loadWorkers,
		triggered.Round(time.Millisecond), pickedUp.Round(time.Millisecond), time.Since(released).Round(time.Millisecond))
	l.checkOutcome(mark)
}

// load is many items of one namespace.
type load struct {
	t              *testing.T
	namespace, dir string
	items          []*v1alpha1.DeployItem
	// lacking is an item that did not meet a condition when it was looked at last; nil if it is not known.
	lacking *v1alpha1.DeployItem
}

// createAll creates the items. The first ones have no timeout; they hold the workers.
func (l *load) createAll() {
	l.t.Helper()
	config := string(marshal(l.t, map[string]any{
		"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": l.dir,
		"blockUntil": filepath.Join(l.dir, "release"), "millis": 20,
	}))
	for i := range loadItems {
		item := newItem(l.namespace, fmt.Sprintf("item-%04d", i), counterType, config)
		item.Spec.Timeout = v1alpha1.Duration(queuedTimeout.String())
		if i < loadWorkers {
			item.Spec.Timeout = v1alpha1.NoDuration
		}
		l.items = append(l.items, item)
	}
	forEach(l.t, l.items, func(ctx context.Context, item *v1alpha1.DeployItem) error { return admin.Create(ctx, item) })
}

// trigger sets a job for each of the items.
func (l *load) trigger(items []*v1alpha1.DeployItem) {
	l.t.Helper()
	forEach(l.t, items, func(ctx context.Context, item *v1alpha1.DeployItem) error {
		now := v1alpha1.Now()
		item.Status.JobID, item.Status.JobIDGenerationTime = "job-"+item.Name, &now
		item.Status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: &now}
		return admin.Status().Update(ctx, item)
	})
}

// eventually is like the function, with more patience and fewer looks.
func (l *load) eventually(what string, condition func(context.Context) (string, error)) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), loadPatience)
	defer cancel()
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		found, err := condition(ctx)
		if err == nil && found == "" {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			l.t.Fatalf("waiting for %s: %s %v", what, found, err)
		}
	}
}

// calls says how many calls are under way if they are not so many, or if one has ended; "" otherwise.
func (l *load) calls(want int) string {
	if began, ended := l.counted(); began != want || ended != 0 {
		return fmt.Sprintf("%d calls have begun and %d have ended", began, ended)
	}
	return ""
}

// counted is how many calls have begun, and how many of them have ended.
func (l *load) counted() (began, ended int) {
	l.t.Helper()
	logs, err := filepath.Glob(filepath.Join(l.dir, "*.log"))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, log := range logs {
		for _, c := range readTrace(l.t, log) {
			if c.Event == "begin" {
				began++
			} else {
				ended++
			}
		}
	}
	return began, ended
}

// without counts the items that do not meet a condition; "" for none. While one does not that did not the last time, it
// looks no further: reading all of them takes its time, which the host could use.
func (l *load) without(ctx context.Context, condition func(*v1alpha1.DeployItem) bool) (string, error) {
	if l.lacking != nil {
		err := admin.Get(ctx, client.ObjectKeyFromObject(l.lacking), l.lacking)
		if err != nil || !condition(l.lacking) {
			return describe(l.lacking), err
		}
		l.lacking = nil
	}
	all := &v1alpha1.DeployItemList{}
	if err := admin.List(ctx, all, client.InNamespace(l.namespace)); err != nil {
		return "", err
	}
	if len(all.Items) != loadItems {
		return fmt.Sprintf("%d items", len(all.Items)), nil
	}
	lacking := slices.DeleteFunc(all.Items, func(item v1alpha1.DeployItem) bool { return condition(&item) })
	if len(lacking) == 0 {
		return "", nil
	}
	l.lacking = &lacking[len(lacking)-1] // which is probably the last
	return fmt.Sprintf("%d items, such as %s: %s", len(lacking), l.lacking.Name, describe(l.lacking)), nil
}

// allPickedUp is Landscaper's own rule.
func (l *load) allPickedUp(ctx context.Context) (string, error) {
	return l.without(ctx, func(item *v1alpha1.DeployItem) bool {
		status := &item.Status
		return !status.LastReconcileTime.IsZero() && !status.LastReconcileTime.Before(status.JobIDGenerationTime)
	})
}

func (l *load) allWaitedTooLong(ctx context.Context) (string, error) {
	return l.without(ctx, func(item *v1alpha1.DeployItem) bool {
		times := item.Status.TransitionTimes
		return times != nil && !times.InitTime.IsZero() && time.Since(times.InitTime.Time) > queuedTimeout
	})
}

func (l *load) allFinished(ctx context.Context) (string, error) {
	return l.without(ctx, func(item *v1alpha1.DeployItem) bool { return item.Status.JobIDFinished == item.Status.JobID })
}

// checkOutcome: all jobs have succeeded, in one call each, with few requests.
func (l *load) checkOutcome(mark auditMark) {
	l.t.Helper()
	failed, err := l.without(l.t.Context(), func(item *v1alpha1.DeployItem) bool {
		return item.Status.Phase == succeeded
	})
	if err != nil || failed != "" {
		l.t.Errorf("not all jobs have succeeded: %s %v", failed, err)
	}
	if begun, _ := l.counted(); begun != loadItems {
		l.t.Errorf("expected %d calls, one for each job, but found %d", loadItems, begun)
	}
	requests := requestsSince(l.t, mark, l.namespace)
	kinds := map[string]int{}
	for _, r := range requests {
		kinds[fmt.Sprintf("%s %s/%s %d", r.Verb, r.ObjectRef.Resource, r.ObjectRef.Subresource, r.ResponseStatus.Code)]++
	}
	l.t.Logf("%.2f requests per item, events aside: %v", float64(len(requests))/loadItems, kinds)
	// Read, put into the queue, picked up, finalizer, finished.
	if most := 6 * loadItems; len(requests) > most {
		l.t.Errorf("expected at most %d requests, but found %d", most, len(requests))
	}
}

// TestPollsCostNoRequests: a job that waits for the same thing at each of many polls costs no request.
func TestPollsCostNoRequests(t *testing.T) {
	const polls = 20
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "counter")})
	c := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	release := filepath.Join(c.dir, "release")
	item := newItem(c.namespace, "item", counterType, string(marshal(t, map[string]any{
		"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": c.dir, "pollUntil": release, "pollMillis": 100,
	})))
	create(t, item)
	jobID := setJob(t, item)
	c.waitBegun(item, 3) // what the first has reached was written before the second
	mark := markAudit(t)

	c.waitBegun(item, 3+polls)

	if requests := requestsSince(t, mark, c.namespace); len(requests) != 0 {
		t.Errorf("expected no request in %d polls, but found:\n%s", polls, list(requests))
	}
	touch(t, release)
	waitFinished(t, item, jobID)
	if requests := requestsSince(t, mark, c.namespace); len(requests) != 1 {
		t.Errorf("expected one request, the final write, but found:\n%s", list(requests))
	}
}
