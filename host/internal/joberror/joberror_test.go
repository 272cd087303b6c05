package joberror

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestRetryPause(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute, 7: time.Minute, 1 << 40: time.Minute,
	} {
		if got := RetryPause(failures, 0); got != want {
			t.Errorf("after %d failures: expected %s, but found %s", failures, want, got)
		}
		if got := RetryPause(failures, 0.999999); got >= want || got < want*4/5 {
			t.Errorf("after %d failures: expected at most a fifth less than %s, but found %s", failures, want, got)
		}
	}
}

func TestJoinErrors(t *testing.T) {
	cleanup, timeout := v1alpha1.ErrorCleanup, v1alpha1.ErrorTimeout
	got := Join([]plugin.Error{
		{Operation: "Apply", Reason: "Refused", Message: "a", Codes: []v1alpha1.ErrorCode{cleanup}},
		{Operation: "Wait", Reason: "Slow", Message: "b", Codes: []v1alpha1.ErrorCode{cleanup, timeout}},
	})
	want := contract.Error{
		Operation: "Apply", Reason: "Refused", Message: "a\nb", Codes: []v1alpha1.ErrorCode{cleanup, timeout},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first names it, all messages are there, and each code once (-want +got):\n%s", diff)
	}
	for healing, want := range map[bool]bool{true: true, false: false} {
		got = Join([]plugin.Error{
			{Codes: []v1alpha1.ErrorCode{timeout}, Heals: true}, {Message: "no code"},
			{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Heals: healing},
		})
		if got.Heals != want {
			t.Errorf("all errors that end the job have to heal, but found %t with %t", got.Heals, healing)
		}
	}
	got = Join([]plugin.Error{{Message: "a"}})
	if diff := cmp.Diff(contract.Error{Reason: "DeployerError", Message: "a"}, got); diff != "" {
		t.Errorf("the API server takes no event without a reason (-want +got):\n%s", diff)
	}
	got = Join(slices.Repeat([]plugin.Error{{Reason: "R", Message: "ä"}}, 10_000))
	if !utf8.ValidString(got.Message) || len(got.Message) > contract.MaxMessage ||
		!strings.HasSuffix(got.Message, "ä\n…") {
		t.Errorf("an object has no room for everything: a message of %d bytes", len(got.Message))
	}
}

// TestDeletionSaysWhatIsPossible: a deletion that lacks what it needs says what can be done where it cannot come back.
func TestDeletionSaysWhatIsPossible(t *testing.T) {
	for _, reason := range []string{
		contract.ReasonTargetNotFound, contract.ReasonSecretNotFound, contract.ReasonContextNotFound,
		string(target.ReasonServiceAccountNotFound),
	} {
		e := Advise(contract.Error{Operation: contract.OperationResolve, Reason: reason})
		if !strings.Contains(e.Message, v1alpha1.DeleteWithoutUninstallAnnotation) {
			t.Errorf("%s: found %q", reason, e.Message)
		}
	}
}
