package deployer_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestDeletionAfterACrash deletes an item whose release was never finished. Helm itself refuses to uninstall what is in
// progress.
// Rule (helm.md#recovery): A deletion after a crash removes a release that was never finished.
func TestDeletionAfterACrash(t *testing.T) {
	t.Parallel()
	for name, deployed := range map[string]bool{"in the installation": false, "in an upgrade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), object{"greeting": "one"}))
			if deployed {
				w.MustSucceed(item)
				w.setConfig(item, w.config(chart("plain"), object{"greeting": "two"}))
			}
			w.Disturb(plugintest.Reconcile, item, 1, afterStorageWrite)
			w.Restart()
			w.MustDelete(item)
			w.mustHave()
			w.mustHold()
		})
	}
}

// TestDeletionThatAHookHoldsUp: each error names the way out. It counts when it is set meanwhile, and the deletion goes
// on when its cause is gone: in the same job, unless the error has a code.
// Rule (helm.md#recovery): A deletion held up by a hook goes on without the cause, and says how it goes on without
// hooks.
func TestDeletionThatAHookHoldsUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, policy string
		hold         func(*world)
		codes        []landscaper.ErrorCode
		says         string
		mend         func(*world)
	}{
		"API server away": {
			hold: func(w *world) { w.failHook(errors.New("connection reset"), nil) },
			says: "connection reset", mend: func(w *world) { w.Requests.Undisturbed() },
		},
		"refused by a webhook": {
			hold: func(w *world) {
				resource := schema.GroupResource{Resource: "configmaps"}
				w.failHook(nil, apierrors.NewForbidden(resource, "last", errors.New("not now")))
			},
			says: "not now", mend: func(w *world) { w.Requests.Undisturbed() },
		},
		"left by an earlier run": {
			policy: "hook-succeeded", hold: func(w *world) { w.createLast(nil) },
			codes: noRetry, says: "already exists", mend: func(w *world) { w.Delete(configMaps, "last") },
		},
		"earlier run that does not go": {
			hold:  func(w *world) { w.createLast([]any{"example.org/wait"}) },
			codes: timedOut, says: "not gone within 1s",
			mend: func(w *world) { w.Patch(configMaps, "last", `{"metadata":{"finalizers":null}}`) },
		},
		// Rule (helm.md#helm-options): `disableHooks` uninstalls without hooks, also while a hook holds the deletion
		// up.
		"kind that is not served": {kind: "Nothing", says: `no matches for kind "Nothing"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			hook := charts.File("templates/hook.yaml", fmt.Sprintf(`apiVersion: v1
kind: %s
metadata:
  name: last
  annotations: {helm.sh/hook: pre-delete, helm.sh/hook-delete-policy: %s}
`, cmp.Or(c.kind, "ConfigMap"), cmp.Or(c.policy, "before-hook-creation")))
			uninstall := object{"timeout": "1s"}
			item := w.item(w.config(chart("plain", hook), nil, options(uninstall, "uninstall")))
			w.MustSucceed(item)
			item.Status.Phase = landscaper.DeployItemPhaseInitDelete
			if c.hold != nil {
				c.hold(w)
			}
			w.MustFail(w.Do(plugintest.Delete, item), c.codes, `pre-delete hook `, `"last"`, c.says,
				"set helmDeploymentConfig.uninstall.disableHooks of the deploy item to true")
			if c.mend != nil {
				c.mend(w)
			} else {
				uninstall["disableHooks"] = true
				w.SetConfig(item, w.config(chart("plain", hook), nil, options(uninstall, "uninstall")))
			}
			w.MustDelete(item)
			w.mustHave()
		})
	}
}

// createLast creates the object of the hook.
func (w *world) createLast(finalizers []any) {
	w.Create(configMaps, object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "last", "finalizers": finalizers},
	})
}

// failHook has the creation of ConfigMaps fail, without an answer or with one.
func (w *world) failHook(err error, answer *apierrors.StatusError) {
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "/configmaps") {
			return nil, nil // the API server answers
		}
		if err != nil {
			return nil, err
		}
		answer.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		res := httptest.NewRecorder()
		res.Header().Set("Content-Type", "application/json")
		res.WriteHeader(int(answer.ErrStatus.Code))
		_, _ = res.Write(w.Marshal(answer.ErrStatus)) // to memory
		return res.Result(), nil
	})
}
