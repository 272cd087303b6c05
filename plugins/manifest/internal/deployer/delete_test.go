package deployer_test

import (
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestDeleteWithoutProviderStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	if result := w.Plugin.Delete(t.Context(), sdktest.Call{DeployItem: item}); result.Succeeded == nil {
		t.Errorf("expected success even without a target, but found: %s", result)
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request, but found %v", got)
	}
}

func TestMistakesDuringADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		reason, key string
		value       any
		want        string // empty: the deletion succeeds
	}{
		// Rule (manifest.md#deletion): Errors in `deletionGroups` block the deletion.
		"groups":         {reason: "they may say that objects stay", key: "deletionGroups", value: []any{object{}}, want: "deletionGroups[0]"},
		"type of groups": {reason: "they may say that objects stay", key: "deletionGroups", value: "all", want: "deletionGroups"},
		"unknown field": {
			reason: "it may have been meant to say which objects stay", key: "deletionGroups",
			value: groups(deleteAll(customGroup("ConfigMap", object{"names": []any{"a"}, "namespace": []any{w.Namespace}}))), want: "namespace",
		},
		// Rule (manifest.md#deletion): Other errors of the configuration do not block the deletion.
		"anything else": {reason: "a mistake must not prevent a deletion", key: "manifests", value: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			item := w.item(config(w.configMap("a", nil)))
			w.mustSucceed(item)
			w.SetConfig(item, with(config(), c.key, c.value))
			result := w.UntilDone(plugintest.Delete, item)
			if c.want != "" {
				w.MustFail(result, plugintest.ConfigurationProblem, c.want)
			} else if result.Succeeded == nil {
				t.Errorf("%s: expected success, but found: %s", c.reason, result)
			}
			if (w.Get(configMaps, "a") != nil) != (c.want != "") {
				t.Errorf("%s: the object is there: %t", c.reason, c.want == "")
			}
		})
	}
}
