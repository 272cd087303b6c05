package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestAbort: main is asked to end, and what it has in its state then is kept.
func TestAbort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.put("shop", stepConfig("count", "--", "hang"))
	w.pod("shop", "running", running)
	w.annotate("shop", v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	w.finish("shop", job, v1alpha1.DeployItemPhaseFailed)
	w.mustHaveOnly(w.uid("shop"), "result", "state")
	if exports := w.succeed("shop", stepConfig("count")); exports["count"] != 2.0 {
		t.Errorf("found exports %v", exports)
	}
}

// TestNextJob: a job that takes the place of another one begins when the container of that has ended.
func TestNextJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("shop", stepConfig("mark", "--", "count", "--", "hang"))
	first := w.pod("shop", "running", running)
	job := w.put("shop", stepConfig("mark", "--", "count"))
	if exports := w.exports(w.finish("shop", job, v1alpha1.DeployItemPhaseSucceeded)); exports["count"] != 2.0 {
		t.Errorf("found exports %v", exports)
	}
	if runs := w.runs("shop"); len(runs) != 2 || runs[0].pod != first.Name || runs[1].pod == first.Name {
		t.Errorf("found runs %v", runs)
	}
	w.mustHaveOnly(w.uid("shop"), "result", "state")
}

// TestPodDeleted: a Pod that somebody deletes is not run again, and the user is told, whatever main makes of being asked to end.
func TestPodDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, hang := range map[string]string{"shop": "hang", "gentle-shop": "hang-gently"} {
		t.Run(hang, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			job := w.put(name, stepConfig("mark", "--", hang))
			pod := w.pod(name, "running", running)
			if err := admin.Delete(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			item := w.finish(name, job, v1alpha1.DeployItemPhaseFailed)
			if item.Status.LastError.Reason != "PodDeleted" {
				t.Errorf("found %s", describe(item))
			}
			w.mustHaveRun(name, "RECONCILE")
			w.mustHaveOnly(w.uid(name), "result", "state")
		})
	}
}

// TestTimeout: what is left of a job that has ended by its timeout is removed without another job.
func TestTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.put("shop", stepConfig("hang-hard"), timeout("8s"))
	w.finish("shop", job, v1alpha1.DeployItemPhaseFailed)
	w.mustHaveOnly(w.uid("shop"), "result", "state")
}

// TestCollect: what is left of a deploy item that has gone without its deployer is removed, and nothing else.
func TestCollect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeed("other", stepConfig("count"))
	w.put("shop", stepConfig("count", "--", "hang"))
	w.pod("shop", "running", running)
	uid := w.uid("shop")
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-foreign", Namespace: podNamespace}}
	w.create(foreign)
	if err := admin.Delete(t.Context(), w.named("shop")); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := admin.Patch(t.Context(), w.named("shop"), patch); err != nil {
		t.Fatal(err)
	}
	w.awaitGone("shop")
	w.mustHaveOnly(uid)
	if len(w.secrets("other", "state")) != 1 || len(w.secrets("other", "result")) != 1 {
		t.Error("the Secrets of another deploy item are gone")
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Error(err)
	}
}

// TestEqualNames: deploy items of one name in two namespaces have nothing in common.
func TestEqualNames(t *testing.T) {
	t.Parallel()
	one, other := newWorld(t), newWorld(t)
	for n := 1; n <= 2; n++ {
		jobOfOne, jobOfOther := one.put("shop", stepConfig("count", "--", "sleep", "1s")), other.put("shop", stepConfig("count", "--", "count"))
		countOfOne := one.exports(one.finish("shop", jobOfOne, v1alpha1.DeployItemPhaseSucceeded))["count"]
		countOfOther := other.exports(other.finish("shop", jobOfOther, v1alpha1.DeployItemPhaseSucceeded))["count"]
		if countOfOne != float64(n) || countOfOther != float64(2*n) {
			t.Errorf("round %d: found %v and %v", n, countOfOne, countOfOther)
		}
	}
	uid := one.uid("shop")
	one.remove("shop")
	one.awaitGone("shop")
	one.mustHaveNothing(uid)
	if len(other.secrets("shop", "state")) != 1 {
		t.Error("the state of the other one is gone")
	}
}
