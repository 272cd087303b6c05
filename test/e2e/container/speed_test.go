package container

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ownWorld creates a namespace and a host, which nobody else uses.
func ownWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	o, err := newHost(t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.startHost(o)
	return w
}

// TestManyAtOnce: 50 deploy items at once on one node.
func TestManyAtOnce(t *testing.T) { //nolint:paralleltest // 50 Pods would keep other tests waiting, which have timeouts
	const many = 50
	w := ownWorld(t)
	began := time.Now()
	jobs := make([]string, many)
	for i := range jobs {
		jobs[i] = w.put(fmt.Sprintf("item-%d", i), stepConfig("count"))
	}
	var all sync.WaitGroup
	took := make([]time.Duration, many)
	for i := range jobs {
		all.Go(func() {
			name := fmt.Sprintf("item-%d", i)
			item := w.await(name, "finished", func(d *v1alpha1.DeployItem) bool { return d.Status.JobIDFinished == jobs[i] })
			took[i] = time.Since(began)
			if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
				t.Errorf("%s: %s", name, describe(item))
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	t.Logf("%d deploy items at once: half of them after %s, all after %s", many, took[many/2].Round(time.Millisecond), took[many-1].Round(time.Millisecond))
}

// TestSoon: a job goes on because its main has ended, and not because it is looked at again, which it is after five minutes: longer than a test
// waits for anything. How long it takes is told.
func TestSoon(t *testing.T) { //nolint:paralleltest // nothing else is measured
	w := ownWorld(t)
	var worst time.Duration
	for n := range 5 {
		name := fmt.Sprintf("item-%d", n)
		job := w.put(name, w.gated(name, "count"))
		w.awaitRunning(name, job)
		ended := w.endOfMain(name)
		w.letGo(name)
		w.finish(name, job, v1alpha1.DeployItemPhaseSucceeded)
		worst = max(worst, time.Since(<-ended))
	}
	t.Logf("worst of five: %s", worst.Round(time.Millisecond))
}

// endOfMain tells when the node has told that main of an item has ended. It is asked before that: the Pod goes soon afterwards.
func (w *world) endOfMain(name string) <-chan time.Time {
	w.Helper()
	events, err := admin.Watch(w.Context(), &corev1.PodList{}, client.InNamespace(podNamespace), client.MatchingLabels{itemLabel: w.uid(name)})
	if err != nil {
		w.Fatal(err)
	}
	told := make(chan time.Time, 1)
	go func() {
		defer events.Stop()
		for event := range events.ResultChan() { // until the test ends
			pod, ok := event.Object.(*corev1.Pod)
			if ok && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated != nil }) {
				told <- time.Now()
				return
			}
		}
		close(told)
	}()
	return told
}
