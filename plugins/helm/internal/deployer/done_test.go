package deployer_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/charts"
)

var jobsOfTarget = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// once is a Job in a chart that deletes itself.
func once() charts.Option {
	return charts.File("templates/once.yaml", `apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  ttlSecondsAfterFinished: 0
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
`)
}

// vanish deletes the Job as its controller does when it is done.
func (w *world) vanish() {
	background := metav1.DeletePropagationBackground
	if err := w.Admin.Resource(jobsOfTarget).Namespace(w.Namespace).Delete(w.Context(), "once", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		w.Error(err)
	}
}

// mustRunJob checks how often the Job was created since it was asked last.
func (w *world) mustRunJob(times int) {
	w.Helper()
	created := 0
	for _, r := range w.Requests.Take() {
		if strings.HasPrefix(r, "POST ") && strings.HasSuffix(r, "/jobs") {
			created++
		}
	}
	if created != times {
		w.Errorf("expected the Job to be created %d times, but found %d", times, created)
	}
}

func startJobOfHook(item *landscaper.DeployItem) {
	plugintest.NewJob(item)
	item.Status.Conditions = []landscaper.Condition{{
		Type: hook.ConditionStarted, Status: landscaper.ConditionTrue, Reason: hook.ReasonStartedByHook, Message: item.Status.JobID,
	}}
}

// TestJobWithTTLRunsOnce: a Job that has deleted itself leads to no other one, and to no revision, in the same job of
// the item and in those of a schedule. The rule is that of the manifest deployer; this is for what is the same with a
// release and without.
// Rule (helm.md#unchanged-releases-and-drift): A Job with a TTL in a release leads to no revision.
func TestJobWithTTLRunsOnce(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		revisions := func(all ...string) {
			if mode["helmDeployment"] == nil {
				w.mustHave(all...)
			}
		}
		gate := object{"readinessChecks": object{"custom": []any{object{
			"name": "gate", "resourceSelector": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": "shop-plain-greeting", "namespace": w.Namespace}},
			"requirements": []any{object{"jsonPath": ".metadata.annotations.open", "operator": "exists"}},
		}}}}
		item := w.item(w.config(chart("plain", once()), nil, mode, gate))
		for i := range 4 {
			result := w.Do(plugintest.Reconcile, item)
			if waiting := result.InProgress; waiting == nil || strings.Contains(waiting.WaitingFor, "Job") != (i == 0) {
				t.Fatalf("call %d: expected to wait for the Job at first, and then for the gate alone, but found: %s", i, result)
			}
			if i == 0 {
				w.vanish()
			}
			w.Restart()
		}
		w.Patch(configMaps, "shop-plain-greeting", `{"metadata":{"annotations":{"open":"yes"}}}`)
		w.MustSucceed(item)
		for range 2 {
			startJobOfHook(item)
			w.MustSucceed(item)
		}
		w.mustRunJob(1)
		revisions("1 deployed")

		// What somebody has deleted beside it is repaired without it.
		if err := w.Objects(configMaps).Delete(t.Context(), "shop-plain-settings", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		startJobOfHook(item)
		w.MustSucceed(item)
		if w.Get(configMaps, "shop-plain-settings") == nil {
			t.Error("what was deleted is not there again")
		}
		w.mustRunJob(0)
		revisions("1 superseded", "2 deployed")

		plugintest.NewJob(item)
		if result := w.Do(plugintest.Reconcile, item); result.InProgress == nil {
			t.Fatalf("expected to wait for the Job, but found: %s", result)
		}
		w.vanish()
		w.MustSucceed(item)
		w.mustRunJob(1)
		revisions("1 superseded", "2 superseded", "3 deployed")
		w.MustDelete(item)
	})
}

// TestJobGoneAtOnce: a Job that nobody has seen since Helm has created it has run, too.
func TestJobGoneAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Requests.Lose(func(r *http.Request) error {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") {
			w.vanish()
		}
		return nil
	})
	item := w.item(w.config(chart("plain", once()), nil))
	for _, start := range []func(*landscaper.DeployItem){plugintest.NewJob, startJobOfHook} {
		start(item)
		for range 2 {
			if result := w.Do(plugintest.Reconcile, item); result.Succeeded == nil {
				t.Fatalf("expected success, but found: %s", fmt.Sprint(result))
			}
		}
	}
	w.mustRunJob(1)
	w.mustHave("1 deployed")
	w.MustDelete(item)
}
