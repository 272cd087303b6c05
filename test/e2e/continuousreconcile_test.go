package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// soon lets a job that a hook asks for begin soon.
const soon = "continuousReconcile: {minimumInterval: 1s}"

// suspendAtEnd suspends the schedule of an item at the end of the test, so that the hosts of other tests need not
// follow it.
func suspendAtEnd(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	t.Cleanup(func() {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"false"}}}`, continuousreconcile.ActiveAnnotation)
		ctx := context.WithoutCancel(t.Context())
		err := admin.Patch(ctx, item.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		if client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// scheduledExample is the item of Landscaper's deployer extensions, in a namespace of its own and with an interval
// of a second.
func scheduledExample(t *testing.T, namespace string) *v1alpha1.DeployItem {
	t.Helper()
	item := example(t, namespace, "seeds", "extensions.yaml")
	config := map[string]any{}
	if err := json.Unmarshal(item.Spec.Config.Raw, &config); err != nil {
		t.Fatal(err)
	}
	config["continuousReconcile"] = map[string]any{"every": "1s"}
	own := fmt.Sprintf(`"namespace":%q`, namespace)
	text := strings.ReplaceAll(string(marshal(t, config)), `"namespace":"example"`, own)
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(text)}
	suspendAtEnd(t, item)
	return withTarget(item, "my-target")
}

// carryOutFirst creates an item with a schedule, sets a job, and returns the item as it is when a job has
// succeeded: that one, or one that its schedule has begun since.
func carryOutFirst(t *testing.T, item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	t.Helper()
	create(t, item)
	setJob(t, item)
	return waitFor(t, item, "finished", func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobID == i.Status.JobIDFinished && i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded
	})
}

// TestContinuousReconcile: what is lost comes back with the next job of the schedule, which only one of two
// replicas begins, also after the other one was killed. With the annotation nothing comes back.
func TestContinuousReconcile(t *testing.T) {
	f := newFleet(t)
	f.options.PluginDir, f.options.Config = pluginDir(t, "manifest", "mock"), writeConfig(t, anyConfig+soon+"\n")
	replicas := f.start(2)
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	item := carryOutFirst(t, scheduledExample(t, namespace))
	if diff := cmp.Diff(map[string]any{"test": map[string]any{"foo": "bar"}}, exports(t, item)); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
	history := record(t, item)
	lose(t, namespace)
	waitBack(t, namespace)
	f.kill(replicas[0])
	f.deletePod(replicas[0])
	lose(t, namespace)
	waitBack(t, namespace)

	annotate(t, item, continuousreconcile.ActiveAnnotation, "false")
	item = waitFor(t, item, "at rest", func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobID == i.Status.JobIDFinished
	})
	lose(t, namespace)
	passSchedule(t, namespace)
	expectConfigMap(t, namespace, "test", false)
	if fresh := read(t, item); fresh.Status.JobID != item.Status.JobID {
		t.Errorf("the suspended item got another job: %s", describe(fresh))
	}
	patchMetadata(t, item, map[string]any{"annotations": map[string]any{continuousreconcile.ActiveAnnotation: nil}})
	waitBack(t, namespace)
	checkApart(t, history.upTo(t, read(t, item)), time.Second)
}

// lose deletes the ConfigMap that the example brings.
func lose(t *testing.T, namespace string) {
	t.Helper()
	deleteObject(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "test"}})
}

// waitBack waits until the ConfigMap is there again.
func waitBack(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "the ConfigMap to come back", func(ctx context.Context) (string, error) {
		err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "test"}, &corev1.ConfigMap{})
		if err != nil && client.IgnoreNotFound(err) == nil {
			return "it is not there", nil
		}
		return "", err
	})
}

// passSchedule waits until an item that begins now with a schedule of a second got two further jobs by it.
func passSchedule(t *testing.T, namespace string) {
	t.Helper()
	item := newItem(namespace, "beside", mockType, fmt.Sprintf(mockConfig, `,"continuousReconcile":{"every":"1s"}`))
	suspendAtEnd(t, item)
	item = carryOutFirst(t, item)
	for range 2 {
		item = waitFinishedAfter(t, item, item.Status.JobID)
	}
}

// checkApart checks that the jobs with which versions of an item are finished have not begun sooner after one
// another than the interval allows.
func checkApart(t *testing.T, versions []*v1alpha1.DeployItem, interval time.Duration) {
	t.Helper()
	var last *v1alpha1.DeployItemStatus
	for _, version := range versions {
		now := version.Status
		if now.JobID != now.JobIDFinished || last != nil && now.JobID == last.JobID {
			continue
		}
		if last != nil {
			apart := now.LastReconcileTime.Sub(last.LastReconcileTime.Time)
			if apart < interval {
				t.Errorf("job %s begins %s after job %s, although the interval is %s", now.JobID, apart, last.JobID, interval)
			}
		}
		last = &version.Status
	}
}
