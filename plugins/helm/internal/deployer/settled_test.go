package deployer_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/charts"
)

// The calls of one job: one rendering, one revision, and each Job once.

// mustKeepNoRendering expects no Secret with the rendered objects of a job.
func (w *world) mustKeepNoRendering() {
	w.Helper()
	list, err := w.Objects(secrets).List(w.Context(), metav1.ListOptions{FieldSelector: "type=pergola.dev/rendering"})
	if err != nil {
		w.Fatal(err)
	}
	if len(list.Items) > 0 {
		w.Errorf("expected no rendering, but found %v", list.Items)
	}
}

// TestJobRendersOnce: the calls of a job apply what its first call has rendered, and delete none of that.
// Rule (helm.md#without-a-release): A chart without a release is rendered once per job.
func TestJobRendersOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(random(), nil, withoutRelease, w.untilOpen()))
	w.mustWait(w.call(item))
	once, text := w.MustGet(secrets, "once").GetUID(), w.data("gate")["text"]
	w.orders.take()
	w.Requests.Take()
	for range 3 {
		w.Restart()
		w.mustWait(w.call(item))
	}
	if orders, writes := w.orders.take(), w.Requests.Writes(); len(orders)+len(writes) > 0 {
		t.Errorf("later calls have asked Helm for %v, and written %q", orders, writes)
	}
	w.open("gate")
	w.MustSucceed(item)
	if got := w.MustGet(secrets, "once").GetUID(); got != once {
		t.Error("the Secret is another one")
	}
	if got := w.data("gate")["text"]; got != text {
		t.Error("the text is another one")
	}
	w.mustKeepNoRendering()
}

// TestRenderingIsKept: a job that could not apply all objects goes on with those that it has rendered, whichever
// process calls.
func TestRenderingIsKept(t *testing.T) {
	t.Parallel()
	same := chart("plain", charts.File("templates/two.yaml", `{{ $text := randAlphaNum 8 }}
apiVersion: v1
kind: ConfigMap
metadata: {name: gate}
data: {text: {{ $text }}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: later, annotations: {text: {{ $text }}}}
`))
	// Rule (helm.md#without-a-release): A job goes on with its rendering if it could not apply all objects.
	for name, forbidden := range map[string]bool{"kept": false, "not permitted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(same, nil, withoutRelease, w.untilOpen()))
			fail := func(parts ...string) {
				w.Requests.Fail(func(r *http.Request) error {
					for _, part := range parts {
						if r.Method != http.MethodGet && strings.Contains(r.URL.Path, part) {
							return errors.New("no answer")
						}
					}
					return nil
				})
			}
			if fail("/serviceaccounts"); forbidden {
				fail("/serviceaccounts", "/secrets")
			}
			if result := w.call(item); result.Failed == nil || len(result.Failed.Codes()) > 0 {
				t.Fatalf("expected an error that is retried, but found: %s", result)
			}
			text := w.data("gate")["text"]
			w.Requests.Undisturbed()
			w.Restart()
			w.orders.take()
			w.mustWait(w.call(item))
			if got := w.data("gate")["text"]; got != text {
				t.Error("what the job had applied was written again")
			}
			later := w.MustGet(plugintest.ServiceAccounts, "later").GetAnnotations()["text"]
			if rendered := len(w.orders.take()); forbidden != (rendered > 0) || forbidden == (later == text) {
				t.Errorf("rendered %d times; the first object has %v, the second %v", rendered, text, later)
			}
			w.open("gate")
			w.MustSucceed(item)
			w.mustKeepNoRendering()
			w.MustDelete(item)
		})
	}
}

// TestJobGoneAtOnce: a Job gone before the first look has run, too.
func TestJobGoneAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	created := 0
	w.Requests.Lose(func(r *http.Request) error {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") {
			created++
			background := metav1.DeletePropagationBackground
			return w.Objects(jobs).Delete(w.Context(), "once", metav1.DeleteOptions{PropagationPolicy: &background})
		}
		return nil
	})
	item := w.item(w.config(chart("plain", charts.File("templates/once.yaml", `apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  ttlSecondsAfterFinished: 0
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}
`)), nil))
	for _, byHook := range []bool{false, true} {
		plugintest.NewJob(item)
		if byHook {
			item.Status.Conditions = []landscaper.Condition{{
				Type: hook.ConditionStarted, Status: landscaper.ConditionTrue,
				Reason: hook.ReasonStartedByHook, Message: item.Status.JobID,
			}}
		}
		for range 2 {
			if result := w.call(item); result.Succeeded == nil {
				t.Fatalf("expected success, but found: %s", result)
			}
		}
	}
	if created != 1 {
		t.Errorf("expected the Job to be created once, but found %d times", created)
	}
	w.mustHave("1 deployed")
	w.MustDelete(item)
}
