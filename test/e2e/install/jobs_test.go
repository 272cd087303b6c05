package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// waitingJobs and countedJobs are under way when an upgrade begins. The first ones wait for the gate; of the others each is called again and again,
	// for longer than the first Pods take to be replaced. newJobs are set while the upgrade goes on.
	waitingJobs, countedJobs, newJobs = 100, 100, 50
	allJobs                           = waitingJobs + countedJobs + newJobs
	gate                              = "gate"
)

// counted is a provider configuration of the plugin counter, which keeps evidence of each call.
const counted = `{"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": "/evidence", "millis": 10, "polls": 24, "pollMillis": 5000}`

// job is a provider configuration of the manifest deployer: it creates a ConfigMap, and waits until the gate is open.
const job = `{
	"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
	"manifests": [{"policy": "manage", "manifest": {
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": %[1]q, "name": %[2]q, "labels": {"job": "yes"}}
	}}],
	"readinessChecks": {"custom": [{
		"name": "gate", "resourceSelector": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": %[1]q, "name": "gate"}],
		"requirements": [{"jsonPath": ".data.open", "operator": "==", "values": [{"value": "yes"}]}]
	}]}
}`

// createJobs creates items, each of which gets a job.
func createJobs(ctx context.Context, from, to int) error {
	for i := from; i < to; i++ {
		name := fmt.Sprintf("job-%03d", i)
		item := &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{Namespace: examples, Name: name, Labels: map[string]string{"job": "yes"}},
			Spec: v1alpha1.DeployItemSpec{
				Type: "landscaper.gardener.cloud/kubernetes-manifest", Target: &v1alpha1.ObjectReference{Namespace: examples, Name: "cluster"},
				Config: &runtime.RawExtension{Raw: fmt.Appendf(nil, job, examples, name)},
			},
		}
		if isCounted(i) {
			item.Spec = v1alpha1.DeployItemSpec{Type: "test.pergola.dev/counter", Config: &runtime.RawExtension{Raw: []byte(counted)}}
		}
		if err := admin.Create(ctx, item); err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
	}
	return nil
}

// isCounted tells whether the job of a number is one of the plugin counter.
func isCounted(i int) bool { return i >= waitingJobs && i < waitingJobs+countedJobs }

func closeGate(t *testing.T) {
	t.Helper()
	if err := admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: examples, Name: gate}, Data: map[string]string{"open": "no"}}); err != nil {
		t.Fatal(err)
	}
}

func openGate(t *testing.T) {
	t.Helper()
	if err := admin.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: examples, Name: gate}, Data: map[string]string{"open": "yes"}}); err != nil {
		t.Fatal(err)
	}
}

// witness sees each version of the jobs, of what they create, and of the host's Pods.
type witness struct {
	mu      sync.Mutex
	items   map[string][]v1alpha1.DeployItemStatus
	created map[string]int // objects by their names
	pods    map[string]*corev1.Pod
}

// watchJobs begins to see, until the test ends.
func watchJobs(t *testing.T) *witness {
	t.Helper()
	w := &witness{items: map[string][]v1alpha1.DeployItemStatus{}, created: map[string]int{}, pods: map[string]*corev1.Pod{}}
	for _, what := range []struct {
		list client.ObjectList
		in   []client.ListOption
	}{
		{&v1alpha1.DeployItemList{}, []client.ListOption{client.InNamespace(examples), client.MatchingLabels{"job": "yes"}}},
		{&corev1.ConfigMapList{}, []client.ListOption{client.InNamespace(examples), client.MatchingLabels{"job": "yes"}}},
		{&corev1.PodList{}, []client.ListOption{client.InNamespace(system)}},
	} {
		if err := admin.List(t.Context(), what.list, what.in...); err != nil {
			t.Fatal(err)
		}
		// Who is slow is cut off, and goes on from where that was.
		events, err := watchtools.NewRetryWatcherWithContext(t.Context(), what.list.GetResourceVersion(), &toolscache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return admin.Watch(ctx, what.list, append(slices.Clone(what.in), &client.ListOptions{Raw: &options})...)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for event := range events.ResultChan() {
				w.see(event)
			}
		}()
		t.Cleanup(func() { events.Stop(); <-ended })
	}
	return w
}

func (w *witness) see(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := event.Object.(type) {
	case *v1alpha1.DeployItem:
		w.items[o.Name] = append(w.items[o.Name], o.Status)
	case *corev1.ConfigMap:
		if event.Type == watch.Added {
			w.created[o.Name]++
		}
	case *corev1.Pod:
		w.pods[o.Name] = o
	}
}

// begun counts the jobs that are under way, or have ended.
func (w *witness) begun() int {
	return w.count(v1alpha1.DeployItemPhaseProgressing) + w.count(v1alpha1.DeployItemPhaseSucceeded)
}

// count counts the jobs that are in a phase now.
func (w *witness) count(phase v1alpha1.DeployItemPhase) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, versions := range w.items {
		if versions[len(versions)-1].Phase == phase {
			n++
		}
	}
	return n
}

// judge says what is wrong with the jobs, and with the Pods that are gone.
func (w *witness) judge() (wrong []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.items) != allJobs {
		wrong = append(wrong, fmt.Sprintf("%d of %d jobs were seen", len(w.items), allJobs))
	}
	for _, name := range slices.Sorted(maps.Keys(w.items)) {
		ids, ends, ended := map[string]bool{}, 0, false
		for _, s := range w.items[name] {
			if s.JobID != "" {
				ids[s.JobID] = true
			}
			ends += map[bool]int{true: 1}[s.JobID != "" && s.JobID == s.JobIDFinished && !ended]
			if ended && s.JobID != s.JobIDFinished {
				wrong = append(wrong, name+" went on after its end")
			}
			ended = s.JobID != "" && s.JobID == s.JobIDFinished
		}
		if len(ids) != 1 || ends != 1 || w.created[name] > 1 {
			wrong = append(wrong, fmt.Sprintf("%s: %d jobs, %d ends, its object was created %d times", name, len(ids), ends, w.created[name]))
		}
	}
	for name, pod := range w.pods {
		for _, s := range pod.Status.ContainerStatuses {
			if s.RestartCount > 0 || s.State.Terminated != nil && s.State.Terminated.ExitCode != 0 {
				wrong = append(wrong, fmt.Sprintf("Pod %s: restarted %d times, state %+v", name, s.RestartCount, s.State.Terminated))
			}
		}
	}
	return wrong
}

// judgeEvidence says what is wrong with the calls of the plugin counter: no two for one item at the same time, and none after one has succeeded.
func judgeEvidence(t *testing.T) (wrong []string) {
	t.Helper()
	if overlaps, err := os.ReadFile(filepath.Join(evidence, "overlaps")); !errors.Is(err, os.ErrNotExist) {
		wrong = append(wrong, fmt.Sprintf("two calls for one item at the same time: %s %v", overlaps, err))
	}
	logs, err := filepath.Glob(filepath.Join(evidence, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(logs) != countedJobs {
		wrong = append(wrong, fmt.Sprintf("there is evidence of %d jobs, not of %d", len(logs), countedJobs))
	}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		succeeded := false
		for line := range strings.Lines(string(content)) {
			var call struct{ Outcome string }
			if err := json.Unmarshal([]byte(line), &call); err != nil {
				t.Fatal(err)
			}
			if succeeded {
				wrong = append(wrong, fmt.Sprintf("%s: called again after it had succeeded", filepath.Base(log)))
			}
			succeeded = succeeded || call.Outcome == "succeeded"
		}
		if !succeeded {
			wrong = append(wrong, fmt.Sprintf("%s: has not succeeded", filepath.Base(log)))
		}
	}
	return wrong
}
