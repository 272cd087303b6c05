package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestRetryPause(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute, 7: time.Minute, 1 << 40: time.Minute,
	} {
		if got := retryPause(failures, 0); got != want {
			t.Errorf("after %d failures: expected %s, but found %s", failures, want, got)
		}
		if got := retryPause(failures, 0.999999); got >= want || got < want*4/5 {
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
		"wish":              {reason: "the plugin knows best", wish: time.Minute, want: time.Minute},
		"no wish":           {reason: "the default", want: defaultPoll},
		"negative":          {reason: "the default", wish: -time.Second, want: defaultPoll},
		"too short":         {reason: "no plugin keeps a worker busy", wish: time.Nanosecond, want: minPoll},
		"beyond the end":    {reason: "a timeout is noticed in time", wish: time.Hour, now: 9 * time.Minute, want: time.Minute},
		"after the end":     {reason: "and at once if it has passed", wish: time.Hour, now: time.Hour, want: minPoll},
		"no timeout":        {reason: "none is none", timeout: "none", wish: time.Hour, now: time.Hour, want: time.Hour},
		"malformed timeout": {reason: "that is reported elsewhere", timeout: "soon", wish: time.Hour, want: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := itemAt("a", "5")
			item.Spec.Timeout = tc.timeout
			item.Status.TransitionTimes = &v1alpha1.TransitionTimes{InitTime: &v1alpha1.Time{Time: noon}}
			j := &job{r: &reconciler{clock: clocktesting.NewFakeClock(noon.Add(tc.now))}, item: item}
			if got := j.pollInterval(tc.wish); got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}

func TestAsError(t *testing.T) {
	own := contract.Error{Operation: "Validate", Reason: "InvalidField", Message: "spec.timeout: soon"}
	notFound := &target.Error{Reason: target.ReasonTargetNotFound, Kind: "Target", Namespace: "ns", Name: "t"}
	forbidden := &target.Error{Reason: target.ReasonForbidden, Kind: "Target", Namespace: "ns", Name: "t"}
	noContext := &target.Error{Reason: target.ReasonContextNotFound, Kind: "Context", Namespace: "ns", Name: "default"}
	cases := map[string]struct {
		reason string
		err    error
		want   contract.Error
		final  bool
	}{
		"own": {reason: "an error of the contract says all itself", err: fmt.Errorf("wrapped: %w", own), want: own},
		"no target": {
			reason: "ends the job without a code, as upstream", err: notFound, final: true,
			want: contract.Error{Operation: "ResolveTarget", Reason: "NoTargetFound", Message: notFound.Error(), Terminal: true},
		},
		"forbidden": {
			reason: "the user has to act", err: forbidden, final: true,
			want: contract.Error{
				Operation: "ResolveTarget", Reason: "TargetForbidden", Message: forbidden.Error(),
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			},
		},
		"no context": {
			reason: "Landscaper creates it", err: noContext,
			want: contract.Error{Operation: "ResolveTarget", Reason: "ContextNotFound", Message: noContext.Error()},
		},
		"API server": {
			reason: "is tried again", err: errors.New("connection refused"),
			want: contract.Error{Operation: "Prepare", Reason: "HostError", Message: "connection refused"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := asError("Prepare", tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got.Final() != tc.final {
				t.Errorf("%s: final is %t", tc.reason, got.Final())
			}
		})
	}
}

func TestJoinErrors(t *testing.T) {
	many := make([]plugin.Error, 0, 10_000)
	for range cap(many) {
		many = append(many, plugin.Error{Reason: "R", Message: "ä", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup}})
	}
	cases := map[string]struct {
		reason string
		errs   []plugin.Error
		want   contract.Error
	}{
		"one": {
			reason: "as it is",
			errs:   []plugin.Error{{Operation: "Apply", Reason: "Refused", Message: "no", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}}},
			want:   contract.Error{Operation: "Apply", Reason: "Refused", Message: "no", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}},
		},
		"several": {
			reason: "the first names it, all messages are there, and each code once",
			errs: []plugin.Error{
				{Operation: "Apply", Reason: "Refused", Message: "a", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup}},
				{Operation: "Wait", Reason: "Slow", Message: "b", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup, v1alpha1.ErrorTimeout}},
			},
			want: contract.Error{
				Operation: "Apply", Reason: "Refused", Message: "a\nb",
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup, v1alpha1.ErrorTimeout},
			},
		},
		"no reason": {
			reason: "the API server takes no event without one",
			errs:   []plugin.Error{{Message: "a"}},
			want:   contract.Error{Reason: "DeployerError", Message: "a"},
		},
		"very many": {
			reason: "an object has no room for everything",
			errs:   many,
			want: contract.Error{
				Reason: "R", Message: "ä\n…", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := joinErrors(tc.errs)
			if len(got.Message) > maxMessage || !utf8.ValidString(got.Message) {
				t.Errorf("%s: a message of %d bytes", tc.reason, len(got.Message))
			}
			if name == "very many" {
				got.Message = got.Message[:3] + got.Message[len(got.Message)-3:] // its beginning and its end
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
