package deployer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestRetry: a retry goes on at the failed step. Hooks with a success in the job are not run again, it deploys the
// rendering of the first attempt, and failed attempts do not fill the history. The next job runs all hooks.
// Rule (helm.md#recovery): A retry deploys the first rendering, runs no hook again after success, and replaces the
// failed revision.
func TestRetry(t *testing.T) {
	t.Parallel()
	for name, upgrade := range map[string]bool{"installation": false, "upgrade": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			away := w.away()
			failing := chart("plain", hooked("backup", "pre-install,pre-upgrade", randomData),
				configMap("random", "", randomData), configMap("away", ", namespace: "+away))
			item := w.item(w.config(failing, nil))
			want := []string{"3 deployed"}
			if upgrade {
				item = w.item(w.config(chart("plain"), nil))
				w.MustSucceed(item)
				w.setConfig(item, w.config(failing, nil))
				want = []string{"1 superseded", "4 deployed"}
			}
			w.MustFail(w.call(item), nil, away)
			backup, rendered := w.Get(configMaps, "backup"), w.data("random")
			w.MustFail(w.call(item), nil, away)
			w.createNamespace(away)
			w.MustSucceed(item)
			if again := w.Get(configMaps, "backup"); again == nil || again.GetUID() != backup.GetUID() {
				t.Error("the hook has run again in the same job")
			}
			if diff := cmp.Diff(rendered, w.data("random")); !upgrade && (diff != "" || len(rendered) == 0) {
				t.Errorf("what the first attempt has rendered: -want +got:\n%s", diff)
			}
			w.mustHave(want...)
			w.mustDeploy(item, w.config(failing, object{"greeting": "another"}))
			if again := w.Get(configMaps, "backup"); again.GetUID() == backup.GetUID() {
				t.Error("the hook has not run in the next job")
			}
		})
	}
}

// away returns a namespace that does not exist yet.
func (w *world) away() string {
	away := w.Namespace + "-away"
	w.DeleteAfter(namespaces, away)
	return away
}

// TestRetryRunsAFailedHook: a failed hook runs again in a retry, and a warning names it and the object it replaces.
// Rule (helm.md#recovery): A warning names a repeated hook of one job, and its replaced objects, before it runs.
func TestRetryRunsAFailedHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := w.away()
	backup := configMap("backup", ", namespace: "+away+", annotations: {helm.sh/hook: pre-install}")
	item := w.item(w.config(chart("plain", backup), nil))
	w.MustFail(w.call(item), nil, "backup")
	w.createNamespace(away)
	want := `pre-install hook ConfigMap "backup" of plain/templates/backup.yaml runs again in this job, ` +
		"and replaces ConfigMap backup: its earlier run is Failed"
	if said := w.mustWarn(w.MustSucceed(item), "HookRepeated"); said != want {
		t.Errorf("expected %q, but found %q", want, said)
	}
}

// TestRetryOfAnAtomicUpgrade: after its undoing it goes on in a retry as another one does. Hooks before it are done,
// unless the rollback has hooks, too: they may have undone that.
// Rule (helm.md#recovery): A retry of an undone atomic upgrade repeats no earlier hook, unless the rollback has hooks.
func TestRetryOfAnAtomicUpgrade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []charts.Option
		runs   bool
	}{
		"rolled back":            {},
		"rolled back with hooks": {before: []charts.Option{hooked("undo", "post-rollback")}, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			away := w.away()
			item := w.item(w.config(chart("plain", c.before...), nil, options(object{"atomic": true}, "upgrade")))
			w.MustSucceed(item)
			w.setConfig(item, w.config(
				chart("plain", hooked("backup", "pre-upgrade", randomData), configMap("away", ", namespace: "+away)),
				nil, options(object{"atomic": true}, "upgrade")))
			w.MustFail(w.call(item), nil, away)
			w.mustHave("1 superseded", "2 failed", "3 deployed")
			backup := w.Get(configMaps, "backup")
			w.createNamespace(away)
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

// TestRetryOfADeletion: a hook with a success in the job is not run again. The next job runs all.
// Rule (helm.md#recovery): A deletion runs no hook again after its success in the same job.
func TestRetryOfADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := w.away()
	notice := fmt.Sprintf(`, namespace: %s, annotations: {helm.sh/hook: pre-delete, helm.sh/hook-weight: "1"}`, away)
	item := w.item(w.config(chart("plain", hooked("backup", "post-install,pre-delete"), configMap("notice", notice)), nil))
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
	if each := slices.Compact(slices.Clone(runs)); len(each) != 3 || each[1] != runs[1] || runs[3] != runs[1] ||
		runs[4] == runs[3] {
		t.Errorf("expected one run at the installation and in each job, but found %v", runs)
	}
	w.createNamespace(away)
	result := w.UntilDone(plugintest.Delete, item)
	if result.Succeeded == nil || backup() != runs[6] {
		t.Errorf("expected success without another run, but found %s", result)
	}
	w.mustWarn(result, "Uninstalled")
}
