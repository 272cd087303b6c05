package deployer_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// driftIn returns what the provider status says of drift; nil for nothing.
func driftIn(t *testing.T, item *landscaper.DeployItem) *managedresource.Drift {
	t.Helper()
	var status v1alpha2.ProviderStatus
	if err := json.Unmarshal(item.Status.ProviderStatus.Raw, &status); err != nil {
		t.Fatal(err)
	}
	return status.Drift
}

// mustReport expects a condition Drifted whose message has all the parts.
func (w *world) mustReport(result *sdktest.Result, status landscaper.ConditionStatus, parts ...string) {
	w.Helper()
	if len(result.Conditions) != 1 || result.Conditions[0].Type != managedresource.ConditionDrifted || result.Conditions[0].Status != status {
		w.Fatalf("expected the condition Drifted to be %s, but found %v", status, result.Conditions)
	}
	for _, part := range parts {
		if !strings.Contains(result.Conditions[0].Message, part) {
			w.Errorf("expected the condition to tell %q, but found %q", part, result.Conditions[0].Message)
		}
	}
}

// TestDriftOfAFailedJob: a drift that was repaired before the job failed is told beside its error.
// Rule (manifest.md#drift): A drift repaired by a failed job is reported beside its error.
func TestDriftOfAFailedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", object{"a": "1"})))
	w.mustSucceed(item)
	w.Patch(configMaps, "a", `{"data":{"a":"9"}}`)
	w.SetConfig(item, config(w.configMap("a", object{"a": "1"}), w.configMap("Bad_Name", nil)))
	plugintest.NewJob(item)
	result := w.call(item)
	w.MustFail(result, plugintest.ConfigurationProblem, "Bad_Name")
	w.mustReport(result, landscaper.ConditionTrue, "/a: data.a")
	if got := driftIn(t, item); got == nil || len(got.Objects) != 1 {
		t.Errorf("expected the provider status to tell it, too, but found %v", got)
	}
}

// TestUnknownFields: an operator who lets them pass has them told once per job, in a warning event.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Configure(object{"strict": false})
	item := w.item(with(configOf(entry(w.deployment("web", "nginx"), object{"polici": "keep"})), "upDateStrategy", "patch"))
	for range 2 {
		plugintest.NewJob(item)
		result := w.call(item)
		w.mustTell(result, "UnknownField: spec.config: passed over: ")
		if got := eventsOf(result)[0]; !strings.Contains(got, "manifests[0].polici") || !strings.Contains(got, "upDateStrategy") {
			t.Errorf("expected both fields to be named, but found %q", got)
		}
		if i := slices.IndexFunc(result.Messages, func(m sdktest.Message) bool { return m.Event != nil }); !result.Messages[i].Event.Warning {
			t.Error("expected a warning")
		}
		w.mustTell(w.call(item))
	}
	w.ready("web")
	w.MustSucceed(item)
}
