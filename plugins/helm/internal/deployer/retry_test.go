package deployer_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// A retry goes on at the step that failed: hooks that the job has seen succeed are not run again, what it deploys is
// what the first attempt has rendered, and its failed attempts do not fill the history. The next job runs all hooks.
// Rule (helm.md#recovery): A retry deploys the first rendering, runs no hook again after success, and replaces the
// failed revision.
func TestRetry(t *testing.T) {
	t.Parallel()
	for name, upgrade := range map[string]bool{"installation": false, "upgrade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			away := w.Namespace + "-away"
			w.DeleteAfter(namespaces, away)
			failing := chart("plain", charts.File("templates/backup.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: backup
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
data: {random: {{ randAlphaNum 9 }}}
`), charts.File("templates/random.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: random}
data: {random: {{ randAlphaNum 9 }}}
`), charts.File("templates/away.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: away, namespace: "+away+"}\n"))
			item := w.item(w.config(failing, nil))
			want := []string{"3 deployed"}
			if upgrade {
				item = w.item(w.config(chart("plain"), nil))
				w.MustSucceed(item)
				w.setConfig(item, w.config(failing, nil))
				want = []string{"1 superseded", "4 deployed"}
			}
			w.MustFail(w.Do(plugintest.Reconcile, item), nil, away)
			backup := w.Get(configMaps, "backup")
			w.MustFail(w.Do(plugintest.Reconcile, item), nil, away)
			w.Create(namespaces, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": away}})
			w.MustSucceed(item)
			if again := w.Get(configMaps, "backup"); again == nil || again.GetUID() != backup.GetUID() {
				t.Error("the hook has run again in the same job")
			}
			if got := w.revisions("shop"); !slices.Equal(got, want) {
				t.Errorf("expected the revisions %v, but found %v", want, got)
			}
			w.setConfig(item, w.config(failing, object{"greeting": "another"}))
			w.MustSucceed(item)
			if again := w.Get(configMaps, "backup"); again.GetUID() == backup.GetUID() {
				t.Error("the hook has not run in the next job")
			}
		})
	}
}

// A hook whose run has failed runs again in a retry, and a warning names it and what it replaces.
// Rule (helm.md#recovery): A warning names a repeated hook of one job, and its replaced objects, before it runs.
func TestRetryRunsAFailedHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := w.Namespace + "-away"
	w.DeleteAfter(namespaces, away)
	item := w.item(w.config(chart("plain", charts.File("templates/backup.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: backup
  namespace: `+away+`
  annotations: {helm.sh/hook: pre-install}
`)), nil))
	w.MustFail(w.Do(plugintest.Reconcile, item), nil, "backup")
	w.Create(namespaces, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": away}})
	said := w.mustWarn(w.MustSucceed(item), "HookRepeated")
	if want := `pre-install hook ConfigMap "backup" of plain/templates/backup.yaml runs again in this job, and replaces ConfigMap backup: its earlier run is Failed`; said != want {
		t.Errorf("expected %q, but found %q", want, said)
	}
}

// An atomic upgrade that was undone goes on in a retry as another one does: what ran before it is done, unless the
// rollback has hooks, which may have undone that.
// Rule (helm.md#recovery): A retry of an undone atomic upgrade repeats no earlier hook, unless the rollback has hooks.
func TestRetryOfAnAtomicUpgrade(t *testing.T) {
	t.Parallel()
	hook := func(name, events string) charts.Option {
		return charts.File("templates/"+name+".yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "+name+
			"\n  annotations: {helm.sh/hook: '"+events+"'}\ndata: {random: {{ randAlphaNum 9 }}}\n")
	}
	for name, c := range map[string]struct {
		before []charts.Option
		runs   bool
	}{
		"rolled back":            {},
		"rolled back with hooks": {before: []charts.Option{hook("undo", "post-rollback")}, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			away := w.Namespace + "-away"
			w.DeleteAfter(namespaces, away)
			item := w.item(w.config(chart("plain", c.before...), nil, options("upgrade", object{"atomic": true})))
			w.MustSucceed(item)
			w.setConfig(item, w.config(chart("plain", hook("backup", "pre-upgrade"),
				charts.File("templates/away.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: away, namespace: "+away+"}\n")),
				nil, options("upgrade", object{"atomic": true})))
			w.MustFail(w.Do(plugintest.Reconcile, item), nil, away)
			w.mustHave("1 superseded", "2 failed", "3 deployed")
			backup := w.Get(configMaps, "backup")
			w.Create(namespaces, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": away}})
			result := w.MustSucceed(item)
			w.mustHave("1 superseded", "3 superseded", "4 deployed")
			if again := w.Get(configMaps, "backup").GetUID() != backup.GetUID(); again != c.runs {
				t.Errorf("expected the hook to run again: %t, but found %t", c.runs, again)
			}
			if c.runs {
				w.mustWarn(result, "HookRepeated")
			}
		})
	}
}

// A deletion runs no hook again that has succeeded in the same job. The next job runs all.
// Rule (helm.md#recovery): A deletion runs no hook again after its success in the same job.
func TestRetryOfADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := w.Namespace + "-away"
	w.DeleteAfter(namespaces, away)
	item := w.item(w.config(chart("plain", charts.File("templates/hooks.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: backup
  annotations: {helm.sh/hook: "post-install,pre-delete"}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: notice
  namespace: `+away+`
  annotations: {helm.sh/hook: pre-delete, helm.sh/hook-weight: "1"}
`)), nil))
	w.MustSucceed(item)
	backup := func() types.UID { return w.MustGet(configMaps, "backup").GetUID() }
	runs := []types.UID{backup()}
	for range 2 { // jobs
		began := landscaper.NewTime(time.Now().Truncate(time.Second))
		if last := w.MustGet(configMaps, "backup").GetCreationTimestamp(); !last.Time.Before(began.Time) {
			w.Eventually("another second", func() bool { return time.Now().Unix() > last.Unix() })
			began = landscaper.NewTime(time.Now().Truncate(time.Second))
		}
		item.Status.TransitionTimes = &landscaper.TransitionTimes{InitTime: &began}
		item.Status.Phase = landscaper.DeployItemPhaseInitDelete
		for range 3 { // calls
			w.MustFail(w.Do(plugintest.Delete, item), nil, away)
			item.Status.Phase = landscaper.DeployItemPhaseDeleting
			runs = append(runs, backup())
		}
	}
	if one, two := runs[1:4], runs[4:]; len(slices.Compact(slices.Clone(one))) != 1 || len(slices.Compact(slices.Clone(two))) != 1 ||
		runs[0] == one[0] || one[0] == two[0] {
		t.Errorf("expected one run in each job, but found %v", runs)
	}
	w.Create(namespaces, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": away}})
	result := w.UntilDone(plugintest.Delete, item)
	if result.Succeeded == nil || backup() != runs[6] {
		t.Errorf("expected success without another run, but found %s", result)
	}
	w.mustWarn(result, "Uninstalled")
}
