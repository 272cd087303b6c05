package contract_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestErrorFinal(t *testing.T) {
	coded := func(codes ...v1alpha1.ErrorCode) contract.Error { return contract.Error{Codes: codes} }
	for name, tc := range map[string]struct {
		reason string
		err    contract.Error
		want   bool
	}{
		"no code":  {"worth another try", contract.Error{}, false},
		"terminal": {"ends the job without a code", contract.Error{Terminal: true}, true},
		// Rule (deploy-items.md#errors): An error with an unrecoverable code ends the job.
		"unrecoverable": {"the user has to act", coded(v1alpha1.ErrorConfigurationProblem), true},
		// Rule (deploy-items.md#errors): An error with a recoverable code is tried again.
		"recoverable":       {"worth another try", coded(v1alpha1.ErrorUnfinished), false},
		"one among several": {"one suffices", coded(v1alpha1.ErrorUnfinished, v1alpha1.ErrorTimeout), true},
		"no retry":          {"the deployer says so", coded(v1alpha1.ErrorNoRetry), true},
		"for information":   {"the code is about the log", coded(v1alpha1.ErrorForInfoOnly), false},
		"unknown code":      {"worth another try", coded("ERR_OTHER"), false},
		"timeout":           {"a timeout ends the job", contract.TimeoutError(newItem(), ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, tc.err.Final()))
		})
	}
}

func TestTimeoutError(t *testing.T) {
	waits := func(i *v1alpha1.DeployItem) { contract.Wait(i, "pod a/b", noon) }
	retries := func(i *v1alpha1.DeployItem) { contract.Retry(i, contract.Error{Message: "refused"}, noon) }
	lacks := func(i *v1alpha1.DeployItem) {
		missing := contract.Error{Operation: contract.OperationResolve, Reason: contract.ReasonContextNotFound}
		missing.Message = "no Context"
		contract.Retry(i, missing, noon)
	}
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		call   string
		want   string
		lacks  bool // what it waited for is something that the item uses
	}{
		"lacks": {"the job may begin anew when it is there", newItem(underWay, timeout("1s"), lacks), "",
			"spec.timeout allows; it was waiting for: another try, after: no Context", true},
		"lacked": {reason: "it has come since",
			item: newItem(underWay, timeout("1s"), lacks, waits), want: "spec.timeout allows; it was waiting for: pod a/b"},
		"waits": {reason: "names what was waited for",
			item: newItem(underWay, timeout("1s"), waits), want: "spec.timeout allows; it was waiting for: pod a/b"},
		"retries": {reason: "names the error", item: newItem(underWay, timeout("1s"), retries),
			want: "spec.timeout allows; it was waiting for: another try, after: refused"},
		"works":   {"the deployer has said nothing", newItem(timeout("1s"), begun), "", "spec.timeout allows", false},
		"nothing": {reason: "nothing known to wait for", item: newItem(underWay, timeout("1s")), want: "spec.timeout allows"},
		"in a call": {"names the call before what was waited for", newItem(underWay, timeout("1s"), waits),
			"Reconcile goes on", "spec.timeout allows; Reconcile goes on; it was waiting for: pod a/b", false},
		"time of the plugin": {reason: "names it, too",
			item: newItem(underWay, limited(90*time.Minute)), want: "the 90m that it has without spec.timeout"},
		"default time": {reason: "names the timeout that the item does not",
			item: newItem(underWay), want: "the 10m that it has without spec.timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			want := contract.Error{
				Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout},
				Operation: "Timeout", Reason: "ProgressingTimeout", Message: "the job took longer than " + tc.want,
			}
			failWith(t, tc.reason, cmp.Diff(tc.lacks, contract.WaitsForReference(tc.item)))
			failWith(t, tc.reason, cmp.Diff(want, contract.TimeoutError(tc.item, tc.call)))
		})
	}
}

func TestRecordError(t *testing.T) {
	first := contract.Error{
		Operation: "Apply", Reason: "Refused", Message: "first", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnfinished},
	}
	otherMessage, otherOperation, otherCode, longer := first, first, first, first
	otherMessage.Message, otherOperation.Operation, longer.Message = "second", "Wait", "first (not the same)"
	otherCode.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup}
	base := recordedAs(first, time.Minute, time.Minute)
	for name, tc := range map[string]struct {
		reason             string
		err                contract.Error
		after              time.Duration
		transition, update time.Duration
	}{
		"other message":   {"the transition is that of the operation", otherMessage, time.Hour, time.Minute, time.Hour},
		"longer message":  {"what begins alike is not the same", longer, time.Hour, time.Minute, time.Hour},
		"other operation": {"another operation is a transition", otherOperation, time.Hour, time.Hour, time.Hour},
		"other code":      {"the codes belong to the error", otherCode, time.Hour, time.Minute, time.Hour},
		"clock set back":  {"no error happens before the pick-up", otherOperation, -time.Hour, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			item := newItem(underWay)
			contract.RecordError(item, first, noon.Add(time.Minute))
			if !contract.RecordError(item, tc.err, noon.Add(tc.after)) {
				t.Errorf("%s: expected another error than the last", tc.reason)
			}
			last := recordedAs(tc.err, tc.transition, tc.update)
			failWith(t, tc.reason, cmp.Diff([]*v1alpha1.Error{base, last}, item.Status.LastErrors))
			failWith(t, tc.reason, cmp.Diff(last, item.Status.LastError))
			failWith(t, "the first error stays", cmp.Diff(base, item.Status.FirstError))
		})
	}
	item := newItem(underWay)
	contract.RecordError(item, first, noon.Add(time.Minute))
	if contract.RecordError(item, first, noon.Add(time.Hour)) {
		t.Error("expected the same error as the last")
	}
	counted := recordedAs(first, time.Minute, time.Hour)
	counted.Message = "first (2 times)"
	failWith(t, "the same again is counted", cmp.Diff([]*v1alpha1.Error{counted}, item.Status.LastErrors))
	failWith(t, "the last error is plain", cmp.Diff(base, item.Status.LastError))
}

// The list of the last errors has each once, the last at the end, and at most five.
func TestLastErrors(t *testing.T) {
	for name, tc := range map[string]struct{ happen, want []string }{
		"alternating": {strings.Fields(strings.Repeat("a b ", 6) + "a"), []string{"b (6 times)", "a (7 times)"}},
		"many":        {strings.Fields("0 1 2 3 4 5 6 7"), strings.Fields("3 4 5 6 7")},
	} {
		item := newItem(underWay)
		item.Status.LastErrors = []*v1alpha1.Error{nil} // an API server takes it
		for _, message := range tc.happen {
			contract.RecordError(item, contract.Error{Message: message}, noon)
		}
		var messages []string
		for _, e := range item.Status.LastErrors {
			if e != nil {
				messages = append(messages, e.Message)
			}
		}
		failWith(t, name, cmp.Diff(tc.want, messages))
	}
}
