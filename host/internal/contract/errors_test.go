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
		"no code":                   {reason: "worth another try", err: contract.Error{}},
		"terminal":                  {reason: "ends the job without a code", err: contract.Error{Terminal: true}, want: true},
		"unrecoverable":             {reason: "the user has to act", err: contract.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}}, want: true},
		"recoverable":               {reason: "worth another try", err: contract.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnfinished}}},
		"one among several":         {reason: "one unrecoverable code suffices", err: contract.Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnfinished, v1alpha1.ErrorTimeout}}, want: true},
		"code that nobody knows":    {reason: "worth another try", err: contract.Error{Codes: []v1alpha1.ErrorCode{"ERR_OTHER"}}},
		"what a timeout looks like": {reason: "a timeout ends the job", err: contract.TimeoutError(""), want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, tc.err.Final()))
		})
	}
}

func TestTimeoutError(t *testing.T) {
	want := contract.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, Operation: "Timeout", Reason: "ProgressingTimeout",
		Message: "the job took longer than spec.timeout allows; it was waiting for: pod a/b",
	}
	failWith(t, "names what was waited for", cmp.Diff(want, contract.TimeoutError("pod a/b")))
	want.Message = "the job took longer than spec.timeout allows"
	failWith(t, "nothing known to wait for", cmp.Diff(want, contract.TimeoutError("")))
}

func TestRecordError(t *testing.T) {
	first := contract.Error{Operation: "Apply", Reason: "Refused", Message: "first", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnfinished}}
	recorded := func(e contract.Error, transition, update time.Duration) *v1alpha1.Error {
		return &v1alpha1.Error{
			Operation: e.Operation, Reason: e.Reason, Message: e.Message, Codes: e.Codes,
			LastTransitionTime: *at(transition), LastUpdateTime: *at(update),
		}
	}
	base := recorded(first, time.Minute, time.Minute)
	otherMessage, otherOperation, otherCode := first, first, first
	otherMessage.Message = "second"
	otherOperation.Operation = "Wait"
	otherCode.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup}
	cases := map[string]struct {
		reason string
		err    contract.Error
		after  time.Duration
		want   []*v1alpha1.Error
	}{
		"the same":        {reason: "the same error again changes nothing and costs no write", err: first, after: time.Hour, want: []*v1alpha1.Error{base}},
		"other message":   {reason: "the transition is that of the operation", err: otherMessage, after: time.Hour, want: []*v1alpha1.Error{base, recorded(otherMessage, time.Minute, time.Hour)}},
		"other operation": {reason: "a change of the operation is a transition", err: otherOperation, after: time.Hour, want: []*v1alpha1.Error{base, recorded(otherOperation, time.Hour, time.Hour)}},
		"other code":      {reason: "the codes belong to the error", err: otherCode, after: time.Hour, want: []*v1alpha1.Error{base, recorded(otherCode, time.Minute, time.Hour)}},
		"clock set back":  {reason: "no error happens before the pick-up", err: otherOperation, after: -time.Hour, want: []*v1alpha1.Error{base, recorded(otherOperation, 0, 0)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := newItem(pickedUp(0, v1alpha1.DeployItemPhaseProgressing))
			contract.RecordError(item, first, noon.Add(time.Minute))
			contract.RecordError(item, tc.err, noon.Add(tc.after))
			failWith(t, tc.reason, cmp.Diff(tc.want, item.Status.LastErrors))
			failWith(t, "the first error stays", cmp.Diff(base, item.Status.FirstError))
			failWith(t, "the last error is the last of the list", cmp.Diff(tc.want[len(tc.want)-1], item.Status.LastError))
		})
	}
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
