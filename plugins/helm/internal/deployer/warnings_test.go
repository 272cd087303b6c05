package deployer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// chartWarnings returns the messages of the events about what Helm warns of.
func chartWarnings(result *sdktest.Result) (all []string) {
	for _, m := range result.Messages {
		if m.Event != nil && m.Event.Reason == "ChartWarning" {
			all = append(all, m.Event.Message)
		}
	}
	return all
}

// TestChartWarnings: what Helm warns of is one line of a preview and one event of a job.
// Rule (helm.md#the-helm-deployer): A warning of Helm about a chart and its values is one event of a job and one line
// of a preview.
func TestChartWarnings(t *testing.T) {
	t.Parallel()
	const want = `Helm warns: Condition path 'sessions.enabled' for chart sessions returned non-bool value; ` +
		`an object is left out, since its annotation helm.sh/hook names an unknown hook: "pre-instal"`
	c := chart("parent", charts.File("templates/hook.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: pre-instal}}
`))
	for name, mode := range map[string]object{"with a release": {}, "without": withoutRelease} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withProcesses()
			item := w.item(w.config(c, object{"sessions": object{"enabled": "false"}}, mode, w.untilOpen()))
			changes, err := w.Plugin.Diff(t.Context(), w.CallOf(item))
			if err != nil || len(changes) < 2 {
				t.Fatalf("expected several changes, but found %v, %v", changes, err)
			}
			line := sdk.Change{Object: "Chart of " + w.Namespace + "/shop", Action: sdk.ActionUpdate, Note: want}
			if diff := cmp.Diff(line, changes[0]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, told := range [][]string{{want}, nil} {
				if diff := cmp.Diff(told, chartWarnings(w.Do(plugintest.Reconcile, item))); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
			changes, err = w.Plugin.Diff(t.Context(), w.CallOf(item))
			if err != nil || len(changes) > 0 {
				t.Errorf("expected no change, but found %v, %v", changes, err)
			}
			w.MustDelete(item)
		})
	}
	t.Run("another release", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).withProcesses()
		item := w.item(w.config(c, nil))
		w.MustSucceed(item)
		w.setConfig(item, w.config(c, nil, object{"name": "other"}))
		if got := chartWarnings(w.MustSucceed(item)); len(got) != 1 || !strings.Contains(got[0], "pre-instal") {
			t.Errorf("expected one event, but found %q", got)
		}
		w.MustDelete(item)
	})
}
