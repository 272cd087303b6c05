package contract_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestErrorFinal(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    contract.Error
		want   bool
	}{
		"no code":  {reason: "worth another try", err: contract.Error{}},
		"terminal": {reason: "ends the job without a code", err: contract.Error{Terminal: true}, want: true},
		"unrecoverable": {
			reason: "the user has to act", err: contract.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}},
			want: true,
		},
		"recoverable": {
			reason: "worth another try", err: contract.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnfinished}},
		},
		"one among several": {
			reason: "one unrecoverable code suffices",
			err:    contract.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnfinished, v1alpha1.ErrorTimeout}}, want: true,
		},
		"no retry": {
			reason: "the deployer says so", err: contract.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}}, want: true,
		},
		"for information": {
			reason: "the code is about the log", err: contract.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorForInfoOnly}},
		},
		"code that nobody knows": {
			reason: "worth another try", err: contract.Error{Codes: []v1alpha1.ErrorCode{"ERR_OTHER"}},
		},
		"what a timeout looks like": {
			reason: "a timeout ends the job", err: contract.TimeoutError(newItem(), ""), want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, tc.err.Final()))
		})
	}
}

func TestTimeoutError(t *testing.T) {
	underWay := pickedUp(0, v1alpha1.DeployItemPhaseProgressing)
	waits := func(i *v1alpha1.DeployItem) { contract.Wait(i, "pod a/b", noon) }
	works := func(i *v1alpha1.DeployItem) { contract.Begin(i, false, deployer, noon) }
	retries := func(i *v1alpha1.DeployItem) { contract.Retry(i, contract.Error{Message: "refused"}, noon) }
	lacks := func(i *v1alpha1.DeployItem) {
		contract.Retry(
			i,
			contract.Error{Operation: contract.OperationResolve, Reason: contract.ReasonContextNotFound, Message: "no Context"},
			noon,
		)
	}
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		call   string
		want   string
		lacks  bool // what it waited for is something that the item uses
	}{
		"lacks": {
			reason: "the job may begin anew when it is there", item: newItem(underWay, timeout("1s"), lacks), lacks: true,
			want: "the job took longer than spec.timeout allows; it was waiting for: another try, after: no Context",
		},
		"lacked": {
			reason: "it has come since", item: newItem(underWay, timeout("1s"), lacks, waits),
			want: "the job took longer than spec.timeout allows; it was waiting for: pod a/b",
		},
		"waits": {
			reason: "names what was waited for", item: newItem(underWay, timeout("1s"), waits),
			want: "the job took longer than spec.timeout allows; it was waiting for: pod a/b",
		},
		"retries": {
			reason: "names the error", item: newItem(underWay, timeout("1s"), retries),
			want: "the job took longer than spec.timeout allows; it was waiting for: another try, after: refused",
		},
		"works": {
			reason: "the deployer has said nothing", item: newItem(timeout("1s"), works),
			want: "the job took longer than spec.timeout allows",
		},
		"nothing": {
			reason: "nothing known to wait for", item: newItem(underWay, timeout("1s")),
			want: "the job took longer than spec.timeout allows",
		},
		"in a call": {
			reason: "names the call before what was waited for", item: newItem(
				underWay, timeout("1s"), waits,
			), call: "Reconcile goes on",
			want: "the job took longer than spec.timeout allows; Reconcile goes on; it was waiting for: pod a/b",
		},
		"default time": {
			reason: "names the timeout that the item does not", item: newItem(underWay),
			want: "the job took longer than the 10 minutes that a job has without spec.timeout",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := contract.Error{
				Codes: []v1alpha1.ErrorCode{
					v1alpha1.ErrorTimeout,
				}, Operation: "Timeout", Reason: "ProgressingTimeout", Message: tc.want,
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
	recorded := func(e contract.Error, transition, update time.Duration) *v1alpha1.Error {
		return &v1alpha1.Error{
			Operation: e.Operation, Reason: e.Reason, Message: e.Message, Codes: e.Codes,
			LastTransitionTime: *at(transition), LastUpdateTime: *at(update),
		}
	}
	base := recorded(first, time.Minute, time.Minute)
	counted := recorded(first, time.Minute, time.Hour)
	counted.Message = "first (2 times)"
	otherMessage, otherOperation, otherCode, longer := first, first, first, first
	otherMessage.Message = "second"
	otherOperation.Operation = "Wait"
	otherCode.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup}
	longer.Message = "first (not the same)"
	cases := map[string]struct {
		reason  string
		err     contract.Error
		after   time.Duration
		want    []*v1alpha1.Error
		last    *v1alpha1.Error
		changed bool
	}{
		"the same": {
			reason: "the same error again is counted", err: first, after: time.Hour, want: []*v1alpha1.Error{counted},
			last: base,
		},
		"other message": {
			reason: "the transition is that of the operation", err: otherMessage, after: time.Hour,
			want: []*v1alpha1.Error{base, recorded(otherMessage, time.Minute, time.Hour)}, changed: true,
		},
		"longer message": {
			reason: "what begins alike is not the same", err: longer, after: time.Hour,
			want: []*v1alpha1.Error{base, recorded(longer, time.Minute, time.Hour)}, changed: true,
		},
		"other operation": {
			reason: "a change of the operation is a transition", err: otherOperation, after: time.Hour,
			want: []*v1alpha1.Error{base, recorded(otherOperation, time.Hour, time.Hour)}, changed: true,
		},
		"other code": {
			reason: "the codes belong to the error", err: otherCode, after: time.Hour,
			want: []*v1alpha1.Error{base, recorded(otherCode, time.Minute, time.Hour)}, changed: true,
		},
		"clock set back": {
			reason: "no error happens before the pick-up", err: otherOperation, after: -time.Hour,
			want: []*v1alpha1.Error{base, recorded(otherOperation, 0, 0)}, changed: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := newItem(pickedUp(0, v1alpha1.DeployItemPhaseProgressing))
			contract.RecordError(item, first, noon.Add(time.Minute))
			if changed := contract.RecordError(item, tc.err, noon.Add(tc.after)); changed != tc.changed {
				t.Errorf("%s: another error than the last: %t", tc.reason, changed)
			}
			failWith(t, tc.reason, cmp.Diff(tc.want, item.Status.LastErrors))
			failWith(t, "the first error stays", cmp.Diff(base, item.Status.FirstError))
			if tc.last == nil {
				tc.last = tc.want[len(tc.want)-1]
			}
			failWith(t, "the last error is plain", cmp.Diff(tc.last, item.Status.LastError))
		})
	}
}

func TestRecordErrorCountsWhatAlternates(t *testing.T) {
	item := newItem(pickedUp(0, v1alpha1.DeployItemPhaseProgressing))
	item.Status.LastErrors = []*v1alpha1.Error{nil} // an API server takes it
	for range 6 {
		contract.RecordError(item, contract.Error{Message: "a"}, noon)
		contract.RecordError(item, contract.Error{Message: "b"}, noon)
	}
	contract.RecordError(item, contract.Error{Message: "a"}, noon)
	var messages []string
	for _, e := range item.Status.LastErrors[1:] {
		messages = append(messages, e.Message)
	}
	failWith(t, "each once, the last at the end", cmp.Diff([]string{"b (6 times)", "a (7 times)"}, messages))
}

func TestRecordErrorForgetsTheOldest(t *testing.T) {
	item := newItem(pickedUp(0, v1alpha1.DeployItemPhaseProgressing))
	for i := range 8 {
		contract.RecordError(item, contract.Error{Message: fmt.Sprint(i)}, noon)
	}
	var messages []string
	for _, e := range item.Status.LastErrors {
		messages = append(messages, e.Message)
	}
	failWith(t, "the last five", cmp.Diff([]string{"3", "4", "5", "6", "7"}, messages))
}
