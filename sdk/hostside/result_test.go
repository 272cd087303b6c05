package hostside

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReadResult(t *testing.T) {
	t.Parallel()
	failed := func(errs ...*deployerv1.Error) *deployerv1.Result {
		return &deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{Errors: errs}}}
	}
	long := strings.Repeat("x", 100<<10)
	for title, test := range map[string]struct {
		reason string
		in     *deployerv1.Result
		want   *Outcome
	}{
		"succeeded": {
			reason: "exports and provider status are passed on as they are",
			in: &deployerv1.Result{
				Outcome:        &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{Exports: []byte(`{"a":1}`)}},
				ProviderStatus: []byte(`{}`),
			},
			want: &Outcome{Succeeded: &Succeeded{Exports: []byte(`{"a":1}`)}, ProviderStatus: []byte(`{}`)},
		},
		"conditions": {
			reason: "they come with any outcome; long texts are cut",
			in: &deployerv1.Result{
				Outcome: &deployerv1.Result_Failed{}, Conditions: []*deployerv1.Condition{
					{Type: "Drifted", Status: "True", Reason: "Repaired", Message: "spec.replicas"},
					{Type: long, Status: long, Reason: long, Message: long}, nil,
				},
			},
			want: &Outcome{
				Errors: []Error{{Reason: "DeployerError", Message: "the deployer failed without saying why"}},
				Conditions: []sdk.Condition{
					{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "spec.replicas"},
					{
						Type: v1alpha1.ConditionType(name(long)), Status: v1alpha1.ConditionStatus(name(long)),
						Reason: Cut(long, maxConditionReason), Message: Cut(long, MaxMessage),
					},
					{},
				},
			},
		},

		"succeeded without content": {
			reason: "the message inside is optional",
			in:     &deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{}},
			want:   &Outcome{Succeeded: &Succeeded{}},
		},
		"in progress": {
			reason: "the wish to be called again is passed on",
			in: &deployerv1.Result{Outcome: &deployerv1.Result_InProgress{InProgress: &deployerv1.InProgress{
				PollAfter: durationpb.New(time.Minute), WaitingFor: "a pod",
			}}},
			want: &Outcome{InProgress: &sdk.InProgress{PollAfter: time.Minute, WaitingFor: "a pod"}},
		},

		"failed": {
			reason: "every error is passed on",
			in: failed(
				&deployerv1.Error{Codes: []string{"ERR_TIMEOUT", "ERR_NEW"}, Operation: "Apply", Reason: "Conflict",
					Message: "another manager"},
				&deployerv1.Error{Message: "and more"},
			),
			want: &Outcome{Errors: []Error{
				{Codes: []v1alpha1.ErrorCode{"ERR_TIMEOUT", "ERR_NEW"}, Operation: "Apply", Reason: "Conflict",
					Message: "another manager"},
				{Message: "and more"},
			}},
		},
		"failed without errors": {
			reason: "a failure has a reason",
			in:     failed(),
			want:   &Outcome{Errors: []Error{{Reason: "DeployerError", Message: "the deployer failed without saying why"}}},
		},
		"failed at length": {
			reason: "long texts are cut",
			in:     failed(&deployerv1.Error{Codes: []string{long}, Operation: long, Reason: long, Message: long}),
			want: &Outcome{Errors: []Error{{
				Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorCode(long[:MaxText] + " … (cut)")},
				Operation: long[:MaxText] + " … (cut)", Reason: long[:MaxText] + " … (cut)",
				Message: long[:MaxMessage] + " … (cut)",
			}}},
		},
		"failed a thousand times": {
			reason: "their number is bounded, too",
			in: failed(slices.Repeat([]*deployerv1.Error{{Codes: slices.Repeat([]string{"C"}, 1000), Message: "m"}},
				1000)...),
			want: &Outcome{Errors: slices.Repeat([]Error{{
				Codes: slices.Repeat([]v1alpha1.ErrorCode{"C"}, maxErrors), Message: "m",
			}}, maxErrors)},
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			got, err := ReadResult(test.in)
			if err != nil {
				t.Fatalf("%s: %v", test.reason, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s: outcome (-want +got):\n%s", test.reason, diff)
			}
		})
	}
	for _, in := range []*deployerv1.Result{nil, {}} {
		if out, err := ReadResult(in); err == nil {
			t.Errorf("expected an error for %v, but found: %v", in, out)
		}
	}
}

// The API server refuses an object that is too large or that is not valid UTF-8.
func TestBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", MaxMessage)
	for text, want := range map[string]string{
		"": "", "ü": "ü", "a\xffb": "a\uFFFDb", long[:MaxMessage]: long[:MaxMessage], long: long[:MaxMessage] + " … (cut)",
		"x" + long: "x" + long[:MaxMessage-2] + "\uFFFD … (cut)",
	} {
		if got := Bounded(text); got != want {
			t.Errorf("%d bytes: expected %d bytes, but found %d: %.100q", len(text), len(want), len(got), got)
		}
	}
}
