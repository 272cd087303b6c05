package deployer_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

var noRetry = []landscaper.ErrorCode{landscaper.ErrorNoRetry}

// renderings are the Secrets that jobs keep their rendered objects in.
func (w *world) renderings() (names []string) {
	w.Helper()
	list, err := w.Objects(secrets).List(w.Context(), metav1.ListOptions{FieldSelector: "type=pergola.dev/rendering"})
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range list.Items {
		names = append(names, o.GetName())
	}
	return names
}

// untilOpen is a readiness check that waits until the ConfigMap "gate" of the chart has the annotation "open".
func (w *world) untilOpen() object {
	return object{"readinessChecks": object{"custom": []any{object{
		"name":             "gate",
		"resourceSelector": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": "gate", "namespace": w.Namespace}},
		"requirements":     []any{object{"jsonPath": ".metadata.annotations.open", "operator": "exists"}},
	}}}}
}

func (w *world) open() { w.Patch(configMaps, "gate", `{"metadata":{"annotations":{"open":"yes"}}}`) }

// mustGoOn makes a call of a job that does not come to its end.
func (w *world) mustGoOn(item *landscaper.DeployItem) {
	w.Helper()
	if result := w.Do(plugintest.Reconcile, item); result.InProgress == nil {
		w.Fatalf("expected the job to go on, but found: %s", result)
	}
}

// random is a chart whose objects are others each time it is rendered: a text in the gate, and a Secret that is
// rendered only as long as it is not there.
func random() object {
	return chart("plain",
		charts.File("templates/gate.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gate}\ndata: {text: {{ randAlphaNum 8 }}}\n"),
		charts.File("templates/once.yaml", `{{ if not (lookup "v1" "Secret" .Release.Namespace "once") }}
apiVersion: v1
kind: Secret
metadata: {name: once}
stringData: {password: {{ randAlphaNum 8 }}}
{{ end }}`))
}

// TestJobRendersOnce: the calls of a job apply what its first call has rendered, and delete none of that.
// Rule (helm.md#without-a-release): A chart without a release is rendered once per job.
func TestJobRendersOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(random(), nil, withoutRelease, w.untilOpen()))
	w.mustGoOn(item)
	once, text := w.MustGet(secrets, "once").GetUID(), w.MustGet(configMaps, "gate").Object["data"]
	w.orders.take()
	w.Requests.Take()
	for range 3 {
		w.Restart()
		w.mustGoOn(item)
	}
	if orders, writes := w.orders.take(), w.Requests.Writes(); len(orders)+len(writes) > 0 {
		t.Errorf("later calls have asked Helm for %v, and written %q", orders, writes)
	}
	w.open()
	w.MustSucceed(item)
	if got := w.MustGet(secrets, "once").GetUID(); got != once {
		t.Error("the Secret is another one")
	}
	if got := w.MustGet(configMaps, "gate").Object["data"].(object)["text"]; got != text.(object)["text"] {
		t.Error("the text is another one")
	}
	if left := w.renderings(); len(left) > 0 {
		t.Errorf("renderings are left: %v", left)
	}
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
			if result := w.Do(plugintest.Reconcile, item); result.Failed == nil || len(result.Failed.Codes()) > 0 {
				t.Fatalf("expected an error that is retried, but found: %s", result)
			}
			text := w.MustGet(configMaps, "gate").Object["data"].(object)["text"]
			w.Requests.Undisturbed()
			w.Restart()
			w.orders.take()
			w.mustGoOn(item)
			if got := w.MustGet(configMaps, "gate").Object["data"].(object)["text"]; got != text {
				t.Error("what the job had applied was written again")
			}
			later := w.MustGet(plugintest.ServiceAccounts, "later").GetAnnotations()["text"]
			if rendered := len(w.orders.take()); forbidden != (rendered > 0) || forbidden == (later == text) {
				t.Errorf("rendered %d times; the first object has %v, the second %v", rendered, text, later)
			}
			w.open()
			w.MustSucceed(item)
			if left := w.renderings(); len(left) > 0 {
				t.Errorf("renderings are left: %v", left)
			}
			w.MustDelete(item)
		})
	}
}

// TestJobMakesOneRevision: what changes after the job has made its revision, or has found it as it should be, is left
// to the next job.
// Rule (helm.md#unchanged-releases-and-drift): A job makes one revision, and leaves later changes to the next job.
func TestJobMakesOneRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(random(), nil, w.untilOpen()))
	for _, revisions := range [][]string{{"1 deployed"}, {"1 superseded", "2 deployed"}} {
		w.mustGoOn(item)
		for range 3 {
			w.Patch(configMaps, "gate", `{"data":{"text":"theirs"}}`)
			w.Restart()
			w.mustGoOn(item)
			w.mustHave(revisions...)
		}
		plugintest.NewJob(item)
	}
	w.open()
	w.MustSucceed(item)
}

// TestVanishedObjectOfARelease: an object that is deleted during the job that has made it fails the job, which makes no
// other revision.
func TestVanishedObjectOfARelease(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, mode object) {
		t.Helper()
		w := newWorld(t)
		job := charts.File("templates/once.yaml", `apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}}}
`)
		item := w.item(w.config(chart("plain", job), nil, mode))
		w.mustGoOn(item)
		w.vanish()
		w.MustFail(w.Do(plugintest.Reconcile, item), noRetry, "ObjectVanished", "ttlSecondsAfterFinished")
		w.mustRunJob(1)
		if mode["helmDeployment"] == nil {
			w.mustHave("1 deployed")
		}
		plugintest.NewJob(item)
		w.mustGoOn(item)
		w.mustRunJob(1)
		w.MustDelete(item)
	})
}

// TestReleaseChangesDuringAJob: a job does not undo what another client makes of its release meanwhile, and does not
// succeed with it.
// Rule (helm.md#unchanged-releases-and-drift): A job does not succeed with another client's change of its release.
func TestReleaseChangesDuringAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(random(), nil, w.untilOpen()))
	w.mustGoOn(item)
	w.Delete(secrets, "sh.helm.release.v1.shop.v1")
	w.open()
	w.MustFail(w.Do(plugintest.Reconcile, item), noRetry, "ReleaseChanged", "revision 1, which is uninstalled")
	w.mustHave()
	plugintest.NewJob(item)
	w.MustSucceed(item)
	w.mustHave("1 deployed")
}
