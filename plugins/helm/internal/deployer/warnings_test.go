package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// chartWarnings returns the messages of the events about Helm's warnings.
func chartWarnings(result *sdktest.Result) (all []string) {
	for _, m := range result.Messages {
		if m.Event != nil && m.Event.Reason == "ChartWarning" {
			all = append(all, m.Event.Message)
		}
	}
	return all
}

// TestChartWarnings: Helm's warnings are one line of a preview and one event of a job.
// Rule (helm.md#the-helm-deployer): A warning of Helm about a chart and its values is one event of a job and one line
// of a preview.
func TestChartWarnings(t *testing.T) {
	t.Parallel()
	const want = `Helm warns: Condition path 'sessions.enabled' for chart sessions returned non-bool value; ` +
		`an object is left out, since its annotation helm.sh/hook names an unknown hook: "pre-instal"`
	c := chart("parent", hooked("hook", "pre-instal"))
	bothModes(t, func(w *world) {
		w.withProcesses()
		item := w.item(w.config(c, object{"sessions": object{"enabled": "false"}}, w.untilOpen()))
		changes, err := w.Plugin.Diff(w.Context(), w.CallOf(item))
		if err != nil || len(changes) < 2 {
			w.Fatalf("expected several changes, but found %v, %v", changes, err)
		}
		line := sdk.Change{Object: "Chart of " + w.Namespace + "/shop", Action: sdk.ActionUpdate, Note: want}
		if diff := cmp.Diff(line, changes[0]); diff != "" {
			w.Errorf("-want +got:\n%s", diff)
		}
		for _, told := range [][]string{{want}, nil} {
			if diff := cmp.Diff(told, chartWarnings(w.call(item))); diff != "" {
				w.Errorf("-want +got:\n%s", diff)
			}
		}
		w.mustChange(item)
		w.MustDelete(item)
	})
	t.Run("another release", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).withProcesses()
		item := w.item(w.config(c, nil))
		w.MustSucceed(item)
		result := w.mustDeploy(item, w.config(c, nil, object{"name": "other"}))
		if got := chartWarnings(result); len(got) != 1 || !strings.Contains(got[0], "pre-instal") {
			t.Errorf("expected one event, but found %q", got)
		}
		w.MustDelete(item)
	})
}
