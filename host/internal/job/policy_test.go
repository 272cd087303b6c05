package job

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

func TestPollInterval(t *testing.T) {
	cases := map[string]struct {
		reason  string
		timeout v1alpha1.Duration
		now     time.Duration // since the pick-up
		wish    time.Duration
		want    time.Duration
	}{
		"wish":      {reason: "the plugin knows best", wish: time.Minute, want: time.Minute},
		"no wish":   {reason: "the default", want: defaultPoll},
		"negative":  {reason: "the default", wish: -time.Second, want: defaultPoll},
		"too short": {reason: "no plugin keeps a worker busy", wish: time.Nanosecond, want: MinPoll},
		"beyond the end": {
			reason: "a timeout is noticed in time", wish: time.Hour, now: 9 * time.Minute, want: time.Minute,
		},
		"after the end":     {reason: "and at once if it has passed", wish: time.Hour, now: time.Hour, want: MinPoll},
		"no timeout":        {reason: "none is none", timeout: "none", wish: time.Hour, now: time.Hour, want: time.Hour},
		"malformed timeout": {reason: "that is reported elsewhere", timeout: "soon", wish: time.Hour, want: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			item := &v1alpha1.DeployItem{}
			item.Spec.Timeout = tc.timeout
			item.Status.TransitionTimes = &v1alpha1.TransitionTimes{InitTime: &v1alpha1.Time{Time: noon}}
			if got := pollInterval(item, tc.wish, noon.Add(tc.now)); got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}

func TestJoinErrors(t *testing.T) {
	cleanup, timeout := v1alpha1.ErrorCleanup, v1alpha1.ErrorTimeout
	got := joinErrors([]plugin.Error{
		{Operation: "Apply", Reason: "Refused", Message: "a", Codes: []v1alpha1.ErrorCode{cleanup}},
		{Operation: "Wait", Reason: "Slow", Message: "b", Codes: []v1alpha1.ErrorCode{cleanup, timeout}},
	})
	want := contract.Error{
		Operation: "Apply", Reason: "Refused", Message: "a\nb", Codes: []v1alpha1.ErrorCode{cleanup, timeout},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the first names it, all messages are there, and each code once (-want +got):\n%s", diff)
	}
	got = joinErrors([]plugin.Error{{Message: "a"}})
	if diff := cmp.Diff(contract.Error{Reason: "DeployerError", Message: "a"}, got); diff != "" {
		t.Errorf("the API server takes no event without a reason (-want +got):\n%s", diff)
	}
	got = joinErrors(slices.Repeat([]plugin.Error{{Reason: "R", Message: "ä"}}, 10_000))
	if !utf8.ValidString(got.Message) || len(got.Message) > contract.MaxMessage || !strings.HasSuffix(got.Message, "ä\n…") {
		t.Errorf("an object has no room for everything: a message of %d bytes", len(got.Message))
	}
}

// TestDeletionSaysWhatIsPossible: a deletion that lacks what it needs says what can be done where it cannot come back.
func TestDeletionSaysWhatIsPossible(t *testing.T) {
	for _, reason := range []string{
		contract.ReasonTargetNotFound, contract.ReasonSecretNotFound, contract.ReasonContextNotFound,
		string(target.ReasonServiceAccountNotFound),
	} {
		e := advise(contract.Error{Operation: contract.OperationResolve, Reason: reason})
		if !strings.Contains(e.Message, v1alpha1.DeleteWithoutUninstallAnnotation) {
			t.Errorf("%s: found %q", reason, e.Message)
		}
	}
}

func TestPath(t *testing.T) {
	for name, tc := range map[string]struct {
		decision  contract.Decision
		canAbort  bool
		finalizer bool
		want      path
	}{
		"an ended job":              {decision: contract.Decision{Action: contract.TimedOut, Deletion: true}, want: onlyWrite},
		"an unchanged item":         {decision: contract.Decision{Action: contract.SucceedUnchanged}, want: onlyWrite},
		"a new job":                 {decision: contract.Decision{Action: contract.Start}, want: withPlugin},
		"a running job":             {decision: contract.Decision{Action: contract.Continue}, want: withPlugin},
		"an abort":                  {decision: contract.Decision{Action: contract.Abort}, canAbort: true, want: withPlugin},
		"an abort the plugin lacks": {decision: contract.Decision{Action: contract.Abort}, want: abortWithoutPlugin},
		"an abort of a deletion": {
			decision: contract.Decision{Action: contract.Abort, Deletion: true}, canAbort: true, want: withPlugin,
		},
		"a deletion": {
			decision: contract.Decision{Action: contract.PickUp, Deletion: true}, finalizer: true, want: withPlugin,
		},
		"a deletion of an item that never reached a deployer": {
			decision: contract.Decision{Action: contract.PickUp, Deletion: true}, want: deleteWithoutPlugin,
		},
		"a deletion that leaves behind": {
			decision:  contract.Decision{Action: contract.PickUp, Deletion: true, LeaveBehind: true},
			finalizer: true, want: deleteWithoutPlugin,
		},
	} {
		if got := pathOf(tc.decision, tc.canAbort, tc.finalizer); got != tc.want {
			t.Errorf("%s: expected %q, but found %q", name, tc.want, got)
		}
	}
}
