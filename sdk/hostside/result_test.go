package hostside

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	noReason := []Error{{Reason: "DeployerError", Message: "the deployer failed without saying why"}}
	long := strings.Repeat("x", 100<<10)
	longName, longMessage := long[:MaxText]+" … (cut)", long[:MaxMessage]+" … (cut)"
	for name, test := range map[string]struct {
		in   *deployerv1.Result
		want *Outcome // nil for an error
	}{
		"exports and provider status are passed on as they are": {
			&deployerv1.Result{
				Outcome:        &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{Exports: []byte(`{"a":1}`)}},
				ProviderStatus: []byte(`{"apiVersion":"v1","kind":"A"}`),
			},
			&Outcome{
				Succeeded: &Succeeded{Exports: []byte(`{"a":1}`)}, ProviderStatus: []byte(`{"apiVersion":"v1","kind":"A"}`),
			},
		},
		"conditions come with any outcome; long texts are cut": {
			&deployerv1.Result{Outcome: &deployerv1.Result_Failed{}, Conditions: []*deployerv1.Condition{
				{Type: "Drifted", Status: "True", Reason: "Repaired", Message: "spec.replicas"},
				{Type: long, Status: long, Reason: long, Message: long}, nil,
			}},
			&Outcome{Errors: noReason, Conditions: []sdk.Condition{
				{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "spec.replicas"},
				{
					Type: v1alpha1.ConditionType(longName), Status: v1alpha1.ConditionStatus(longName),
					Reason: Cut(long, maxConditionReason), Message: longMessage,
				},
				{},
			}},
		},
		"the message inside is optional": {
			&deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{}}, &Outcome{Succeeded: &Succeeded{}},
		},
		"the wish to be called again is passed on": {
			&deployerv1.Result{Outcome: &deployerv1.Result_InProgress{InProgress: &deployerv1.InProgress{
				PollAfter: durationpb.New(time.Minute), WaitingFor: "a pod",
			}}},
			&Outcome{InProgress: &sdk.InProgress{PollAfter: time.Minute, WaitingFor: "a pod"}},
		},
		"every error is passed on": {
			failed(
				&deployerv1.Error{Codes: []string{"ERR_TIMEOUT"}, Operation: "Apply", Reason: "A", Message: "b"},
				&deployerv1.Error{Reason: "B", Message: "and more"},
			),
			&Outcome{Errors: []Error{
				{Codes: []v1alpha1.ErrorCode{"ERR_TIMEOUT"}, Operation: "Apply", Reason: "A", Message: "b"},
				{Reason: "B", Message: "and more"},
			}},
		},
		"a failure has a reason": {failed(), &Outcome{Errors: noReason}},
		"long texts of an error are cut": {
			failed(&deployerv1.Error{Operation: long, Reason: "A", Message: long}),
			&Outcome{Errors: []Error{{Operation: longName, Reason: "A", Message: longMessage}}},
		},
		"the number of errors and codes is bounded": {
			failed(slices.Repeat([]*deployerv1.Error{{
				Codes: slices.Repeat([]string{"ERR_CLEANUP"}, 1000), Reason: "A", Message: "b",
			}}, 1000)...),
			&Outcome{Errors: slices.Repeat([]Error{{
				Codes: slices.Repeat([]v1alpha1.ErrorCode{"ERR_CLEANUP"}, maxErrors), Reason: "A", Message: "b",
			}}, maxErrors)},
		},
		"no result":  {nil, nil},
		"no outcome": {&deployerv1.Result{}, nil},
	} {
		got, err := ReadResult(test.in)
		diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Outcome{}, "Flaws"))
		if diff != "" || (err == nil) != (test.want != nil) {
			t.Errorf("%s: error %v, outcome (-want +got):\n%s", name, err, diff)
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
