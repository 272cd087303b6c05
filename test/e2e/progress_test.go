package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestProgress: an item says what its job does and what it waits for, also to those who know nothing of deploy items,
// and so does the error when its time is over. An event tells of the end of each job.
func TestProgress(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	dir := t.TempDir()
	const message = "two of three are new"
	item := start(t, newItem(newNamespace(t), "item", probeType, probeConfigWith(dir, map[string]any{
		"blockUntil": dir + "/blockUntil", "progress": map[string]any{"step": "Upgrading", "message": message},
	})))
	item = waitMessage(t, item, message)
	if reason := conditionOf(item, "Reconciling").Reason; reason != "Upgrading" {
		t.Errorf("expected the step as the reason, but found %q", reason)
	}
	checkKstatus(t, item, status.InProgressStatus, message)
	touch(t, dir+"/blockUntil")
	item = waitPhase(t, item, succeeded)
	checkKstatus(t, item, status.CurrentStatus, "")

	edit(t, item, func() { item.Spec.Config.Raw = []byte(probeConfig(dir, "waitFor")) })
	setJob(t, item)
	item = waitMessage(t, item, "the file "+dir+"/waitFor")
	touch(t, dir+"/waitFor") // wakes the host, which would call again in an hour otherwise
	item = waitPhase(t, item, succeeded)

	if err := os.Remove(dir + "/waitFor"); err != nil {
		t.Fatal(err)
	}
	edit(t, item, func() { item.Spec.Timeout = "1s" })
	item = carryOutAgain(t, item, failed)
	e := item.Status.LastError
	if e == nil || e.Reason != "ProgressingTimeout" || len(e.Codes) != 1 || e.Codes[0] != v1alpha1.ErrorTimeout {
		t.Fatalf("expected a timeout, but found %s", marshal(t, e))
	}
	if times := item.Status.TransitionTimes; times.FinishedTime.Sub(times.InitTime.Time).Seconds() < 1 {
		t.Errorf("the job had less time than its timeout allows: %s", marshal(t, times))
	}
	checkKstatus(t, item, status.FailedStatus, dir+"/waitFor")
	kubectl(t, "get", "deployitem", item.Name, "-n", item.Namespace, "-o", "wide").expect(t, 0, "ProgressingTimeout")
	waitEvent(t, item, "ProgressingTimeout") // events keep their order
	checkEvents(t, item, map[string]int{"Succeeded": 2, "ProgressingTimeout": 1})
}

// checkKstatus checks what kstatus makes of an item, and that its message contains a text.
func checkKstatus(t *testing.T, item *v1alpha1.DeployItem, want status.Status, message string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.DeployItemGVK)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(item), object); err != nil {
		t.Fatal(err)
	}
	got, err := status.Compute(object)
	if err != nil || got.Status != want || !strings.Contains(got.Message, message) {
		t.Errorf("expected %s with a message that contains %q, but found %+v, error %v", want, message, got, err)
	}
}

// TestWhatAPluginSaysArrives: records of a plugin are in the host's log, and its events at the item.
func TestWhatAPluginSaysArrives(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := carryOut(t, newItem(namespace, "item", probeType, probeConfig(dir, "log", "event")), succeeded)

	eventually(t, "the record in the host's log", func(context.Context) (string, error) {
		var record string
		for line := range strings.Lines(host.Log()) {
			if strings.Contains(line, `"msg":"`+dir+`/log"`) {
				record = line
			}
		}
		for _, field := range []string{
			`"level":"WARN"`, `"plugin":"probe"`, `"deployitem":"` + namespace + `/item"`, `"jobID":"` + item.Status.JobID + `"`,
			`"number":9007199254740993`, `"plugin_msg":"an attribute of that name"`,
		} {
			if !strings.Contains(record, field) {
				return fmt.Sprintf("%s is not in %q", field, record), nil
			}
		}
		return "", nil
	})
	if event := waitEvent(t, item, "Probed"); event.Note != dir+"/event" {
		t.Errorf("expected the plugin's event, but found %+v", event)
	}
}
