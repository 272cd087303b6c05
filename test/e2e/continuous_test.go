package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// suspendAtEnd suspends the schedule of an item at the end of the test, so that the hosts of other tests need not follow it.
func suspendAtEnd(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	t.Cleanup(func() {
		patch := client.RawPatch("application/merge-patch+json",
			marshal(t, map[string]any{"metadata": map[string]any{"annotations": map[string]any{continuousreconcile.ActiveAnnotation: "false"}}}))
		if err := client.IgnoreNotFound(admin.Patch(context.WithoutCancel(t.Context()), item.DeepCopy(), patch)); err != nil {
			t.Error(err)
		}
	})
}

// every is a schedule with an interval.
func every(interval time.Duration) *managedresource.ContinuousReconcile {
	return &managedresource.ContinuousReconcile{Every: interval.String()}
}

// scheduled is the item of Landscaper's deployer extensions with another schedule, in a namespace of its own.
func scheduled(t *testing.T, name, namespace string, schedule *managedresource.ContinuousReconcile) *v1alpha1.DeployItem {
	t.Helper()
	item := example(t, namespace, "seeds", "extensions.yaml")
	config := map[string]any{}
	if err := json.Unmarshal(item.Spec.Config.Raw, &config); err != nil {
		t.Fatal(err)
	}
	config["continuousReconcile"] = schedule
	text := strings.ReplaceAll(string(marshal(t, config)), `"namespace":"example"`, fmt.Sprintf(`"namespace":%q`, namespace))
	text = strings.ReplaceAll(text, `"name":"test"`, fmt.Sprintf(`"name":%q`, name))
	item.Name, item.Spec.Config = name, &runtime.RawExtension{Raw: []byte(text)}
	suspendAtEnd(t, item)
	return withTarget(item, "my-target")
}

// carryOutFirst creates an item with a schedule, sets a job, and returns the item as it is when a job has succeeded: that one, or
// one that its schedule has begun since.
func carryOutFirst(t *testing.T, item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	t.Helper()
	create(t, item)
	setJob(t, item)
	return waitFor(t, item, "finished", func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobID == i.Status.JobIDFinished && i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded
	})
}

// lose deletes the ConfigMap that a scheduled item brings.
func lose(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	deleteObject(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: item.Namespace, Name: item.Name}})
}

// isLost tells whether the ConfigMap that a scheduled item brings is not there.
func isLost(ctx context.Context, item *v1alpha1.DeployItem) (bool, error) {
	err := admin.Get(ctx, client.ObjectKeyFromObject(item), &corev1.ConfigMap{})
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// waitBack waits until the ConfigMap is there again, and returns the item when it is finished.
func waitBack(t *testing.T, item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	t.Helper()
	eventually(t, "the ConfigMap of item "+item.Name+" to come back", func(ctx context.Context) (string, error) {
		gone, err := isLost(ctx, item)
		if gone {
			return "it is not there", err
		}
		return "", err
	})
	return waitFinishedAfter(t, item, item.Status.JobID)
}

func TestContinuousReconcile(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest", "mock", "probe"), Config: writeConfig(t, anyConfig+soon+"\n")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	t.Run("with", func(t *testing.T) {
		for name, schedule := range map[string]*managedresource.ContinuousReconcile{
			"every": every(2 * time.Second),
			"cron":  {Cron: "@every 2s"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				item := carryOutFirst(t, scheduled(t, name, namespace, schedule))
				lose(t, item)
				again := waitBack(t, item)
				if again.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
					t.Errorf("expected the job that the schedule asks for to succeed, but found %s", describe(again))
				}
				checkApart(t, []*v1alpha1.DeployItem{item, again}, 2*time.Second)
				if operation, asks := again.Annotations[v1alpha1.OperationAnnotation]; asks {
					t.Errorf("expected no operation to be asked for, but found %q", operation)
				}
			})
		}
		t.Run("the annotation", func(t *testing.T) {
			t.Parallel()
			suspend(t, namespace)
		})
		t.Run("a job in the meantime", func(t *testing.T) {
			t.Parallel()
			overtake(t, namespace)
		})
	})
}

// suspend: with the annotation nothing comes back, and without it, it does.
func suspend(t *testing.T, namespace string) {
	t.Helper()
	item := scheduled(t, "suspended", namespace, every(time.Second))
	item.Annotations[continuousreconcile.ActiveAnnotation] = "false"
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	lose(t, item)

	passSchedule(t, namespace, "beside-suspended")
	if gone, err := isLost(t.Context(), item); err != nil || !gone {
		t.Errorf("the ConfigMap of the suspended item came back (error %v)", err)
	}
	if fresh := read(t, item); fresh.Status.JobID != item.Status.JobID {
		t.Errorf("the suspended item got another job: %s", describe(fresh))
	}

	patchMetadata(t, item, map[string]any{"annotations": map[string]any{continuousreconcile.ActiveAnnotation: nil}})
	waitBack(t, item)
}

// passSchedule waits until an item that begins now with a schedule of a second got two further jobs by it.
func passSchedule(t *testing.T, namespace, name string) {
	t.Helper()
	item := newItem(namespace, name, mockType, fmt.Sprintf(mockConfig, `,"continuousReconcile":{"every":"1s"}`))
	suspendAtEnd(t, item)
	item = carryOutFirst(t, item)
	for range 2 {
		item = waitFinishedAfter(t, item, item.Status.JobID)
	}
}

// overtake: a job that Landscaper sets is carried out at once, and the schedule counts from it.
func overtake(t *testing.T, namespace string) {
	t.Helper()
	item := newItem(namespace, "overtaken", mockType, fmt.Sprintf(mockConfig, `,"continuousReconcile":{"every":"3s"}`))
	suspendAtEnd(t, item)
	item = carryOutFirst(t, item)

	item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
	next := waitFinishedAfter(t, item, item.Status.JobID)

	checkApart(t, []*v1alpha1.DeployItem{item, next}, 3*time.Second)
}

// jobsOf are the versions of an item with which its jobs have begun, in their order.
func jobsOf(versions []*v1alpha1.DeployItem) (jobs []*v1alpha1.DeployItem) {
	seen := map[string]bool{}
	for _, version := range versions {
		begun := version.Status.LastReconcileTime != nil && pickedUpJob(version) == version.Status.JobID
		if begun && !seen[version.Status.JobID] {
			seen[version.Status.JobID] = true
			jobs = append(jobs, version)
		}
	}
	return jobs
}

// checkApart checks that jobs have not begun sooner after one another than the interval allows.
func checkApart(t *testing.T, jobs []*v1alpha1.DeployItem, interval time.Duration) {
	t.Helper()
	for i := 1; i < len(jobs); i++ {
		apart := jobs[i].Status.LastReconcileTime.Sub(jobs[i-1].Status.LastReconcileTime.Time)
		if apart < interval {
			t.Errorf("item %s: job %s begins %s after job %s, although the interval is %s",
				jobs[i].Name, jobs[i].Status.JobID, apart, jobs[i-1].Status.JobID, interval)
		}
	}
}

// TestMissedTimeFiresOnce: however many due times were missed while no host was there, one job makes up for them.
func TestMissedTimeFiresOnce(t *testing.T) {
	options := testenv.HostOptions{PluginDir: pluginDir(t, "mock", "probe"), Config: writeConfig(t, anyConfig+soon+"\n")}
	host := startReadyHost(t, options)
	namespace := newNamespace(t)
	item := newItem(namespace, "item", mockType, fmt.Sprintf(mockConfig, `,"continuousReconcile":{"every":"10m"}`))
	suspendAtEnd(t, item)
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := host.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	// The host was away for an hour.
	item = patchStatus(t, item, map[string]any{"lastReconcileTime": v1alpha1.NewTime(time.Now().Add(-time.Hour))})

	startReadyHost(t, options)
	item = waitFinishedAfter(t, item, item.Status.JobID)
	passSchedule(t, namespace, "other")

	if fresh := read(t, item); fresh.Status.JobID != item.Status.JobID {
		t.Errorf("a second job made up for the times that were missed: %s", describe(fresh))
	}
}

// TestMinimumInterval: a schedule that is shorter than the host allows is followed as often as it allows, and the item says so.
func TestMinimumInterval(t *testing.T) {
	config := writeConfig(t, anyConfig+"continuousReconcile: {minimumInterval: 3s}\n")
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock"), Config: config})
	item := newItem(newNamespace(t), "item", mockType, fmt.Sprintf(mockConfig, `,"continuousReconcile":{"every":"1s"}`))
	suspendAtEnd(t, item)
	item = carryOutFirst(t, item)
	jobs := []*v1alpha1.DeployItem{item}
	for range 2 {
		item = waitFinishedAfter(t, item, item.Status.JobID)
		jobs = append(jobs, item)
	}
	checkApart(t, jobs, 3*time.Second)
	if event := waitEvent(t, item, "ReconcileIntervalRaised"); event.Type != corev1.EventTypeWarning || !strings.Contains(event.Note, "3s") {
		t.Errorf("expected a warning that names the minimum interval, but found %s %q", event.Type, event.Note)
	}
	if n := countEvents(t, item, "ReconcileIntervalRaised"); n != 1 {
		t.Errorf("expected the item to be told once, but found %d events", n)
	}
}

func countEvents(t *testing.T, item *v1alpha1.DeployItem, reason string) int {
	t.Helper()
	events, err := eventsOf(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	return reasons(events)[reason]
}
