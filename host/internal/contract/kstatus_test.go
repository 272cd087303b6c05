package contract_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// kstatusOf is the status that kstatus computes for an item.
func kstatusOf(t *testing.T, item *v1alpha1.DeployItem) status.Status {
	t.Helper()
	result, err := status.Compute(&unstructured.Unstructured{Object: fieldsOf(t, item)})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

func fieldsOf(t *testing.T, item *v1alpha1.DeployItem) map[string]any {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// argoCheck is the health check for Argo CD in the guide.
func argoCheck(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../../../docs/operators-guide.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "# argocd-cm.yaml\n")
	text, _, _ = strings.Cut(text, "\n```\n")
	config := struct{ Data map[string]string }{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	script := config.Data["resource.customizations.health."+v1alpha1.GroupName+"_DeployItem"]
	if script == "" {
		t.Fatalf("expected a health check of DeployItems in the guide, but found %v", config.Data)
	}
	return script
}

// healthOf is the health of an item by a health check of Argo CD. Each health has a message.
func healthOf(t *testing.T, check string, item *v1alpha1.DeployItem) string {
	t.Helper()
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", luaOf(state, fieldsOf(t, item)))
	if err := state.DoString(check); err != nil {
		t.Fatal(err)
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok || health.RawGetString("message").String() == "" || health.RawGetString("message") == lua.LNil {
		t.Fatalf("expected a health with a message, but found %v", state.Get(-1))
	}
	return health.RawGetString("status").String()
}

// luaOf converts a value of JSON.
func luaOf(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, field := range value {
			table.RawSetString(key, luaOf(state, field))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, element := range value {
			table.Append(luaOf(state, element))
		}
		return table
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case bool:
		return lua.LBool(value)
	default:
		return lua.LNil
	}
}

// TestKstatus shows the answer of kstatus, and with it of Flux and others, and that of Argo CD at each moment.
// Rule (operators-guide.md#wait): kstatus and Argo CD take an item for in progress until its current spec is deployed
// or has failed.
func TestKstatus(t *testing.T) {
	const inProgress, current, isFailed, terminating = status.InProgressStatus, status.CurrentStatus,
		status.FailedStatus, status.TerminatingStatus
	check, refused := argoCheck(t), contract.Error{Operation: "Apply", Reason: "Refused", Message: "no"}
	pauses := contract.Pauses{First: time.Minute, Longest: time.Hour}
	fresh := func(i *v1alpha1.DeployItem) {
		i.Generation, i.Status = 1, v1alpha1.DeployItemStatus{ObservedGeneration: -1}
	}
	set := func(i *v1alpha1.DeployItem) { contract.SetNewJob(i, i.Status.JobID+"+", noon) }
	edited := func(i *v1alpha1.DeployItem) { i.Generation++ }
	waits := func(i *v1alpha1.DeployItem) { contract.Wait(i, "the moon", noon) }
	retries := func(i *v1alpha1.DeployItem) { contract.Retry(i, refused, noon) }
	succeeds := func(i *v1alpha1.DeployItem) { contract.Succeed(i, noon) }
	fails := func(i *v1alpha1.DeployItem) { contract.Fail(i, i.DeletionTimestamp != nil, refused, noon) }
	failsForNow := func(i *v1alpha1.DeployItem) { pauses.Fail(i, i.DeletionTimestamp != nil, refused, 0, noon) }
	tries := func(i *v1alpha1.DeployItem) { contract.SetTry(i, "try", contract.Try{Number: 2, Job: "first"}, noon) }
	paused := func(i *v1alpha1.DeployItem) {
		annotated(contract.PausedAnnotation, "true")(i)
		contract.ShowPaused(i, noon)
	}
	unserved := func(i *v1alpha1.DeployItem) { contract.SetUnserved(i, "no plugin serves it", noon) }
	unhealthy := func(i *v1alpha1.DeployItem) { contract.ShowHealth(i, "a Deployment has no Pod", noon) }
	requested := func(i *v1alpha1.DeployItem) { deleted(i); edited(i) }
	for _, tc := range []struct {
		moment string
		life   []modifier
		want   status.Status
		health string
	}{
		{"created", nil, inProgress, "Progressing"},
		{"created, and no plugin serves it", []modifier{unserved}, inProgress, "Progressing"},
		{"created as paused", []modifier{paused}, inProgress, "Suspended"},
		{"job set", []modifier{set}, inProgress, "Progressing"},
		{"queued", []modifier{set, queued(0)}, inProgress, "Progressing"},
		{"picked up", []modifier{set, begun}, inProgress, "Progressing"},
		{"waiting", []modifier{set, begun, waits}, inProgress, "Progressing"},
		{"retrying", []modifier{set, begun, retries}, inProgress, "Progressing"},
		{"edited in its job", []modifier{set, begun, waits, edited}, inProgress, "Progressing"},
		{"edited in its job, which succeeds", []modifier{set, begun, edited, succeeds}, inProgress, "Progressing"},
		{"succeeded", []modifier{set, begun, succeeds}, current, "Healthy"},
		{"unhealthy", []modifier{set, begun, succeeds, unhealthy}, inProgress, "Degraded"},
		{"paused", []modifier{set, begun, succeeds, paused}, current, "Healthy"},
		{"unchanged in another job", []modifier{set, begun, succeeds, set, skipped}, current, "Healthy"},
		{"edited", []modifier{set, begun, succeeds, edited}, inProgress, "Progressing"},
		{"edited while paused", []modifier{set, begun, succeeds, paused, edited}, inProgress, "Suspended"},
		{"edited, job set", []modifier{set, begun, succeeds, edited, set}, inProgress, "Progressing"},
		{"edited, deployed", []modifier{set, begun, succeeds, edited, set, begun, succeeds}, current, "Healthy"},
		{"failed", []modifier{set, begun, fails}, isFailed, "Degraded"},
		{"failed, and paused", []modifier{set, begun, fails, paused}, isFailed, "Suspended"},
		{"failed, with a next try", []modifier{set, begun, failsForNow}, isFailed, "Degraded"},
		{"next try set", []modifier{set, begun, failsForNow, tries}, inProgress, "Progressing"},
		{"next try picked up", []modifier{set, begun, failsForNow, tries, begun}, inProgress, "Progressing"},
		{"next try succeeded", []modifier{set, begun, failsForNow, tries, begun, succeeds}, current, "Healthy"},
		{"failed, then edited", []modifier{set, begun, fails, edited}, inProgress, "Progressing"},
		{"deletion requested", []modifier{set, begun, succeeds, requested}, terminating, "Progressing"},
		{"deletion before a job", []modifier{requested}, terminating, "Progressing"},
		{"deleting", []modifier{set, begun, succeeds, requested, set, begun, waits}, terminating, "Progressing"},
		{"deletion failed", []modifier{set, begun, requested, set, begun, failsForNow}, terminating, "Degraded"},
	} {
		item := newItem(append([]modifier{fresh}, tc.life...)...)
		if got := kstatusOf(t, item); got != tc.want {
			t.Errorf("%s: kstatus says %s instead of %s", tc.moment, got, tc.want)
		}
		if got := healthOf(t, check, item); got != tc.health {
			t.Errorf("%s: the health for Argo CD is %s instead of %s", tc.moment, got, tc.health)
		}
	}
}
