package sdk

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func coded(err error, codes ...v1alpha1.ErrorCode) *Error {
	return &Error{Codes: codes, Err: err}
}

func TestCodes(t *testing.T) {
	t.Parallel()
	const (
		config   = v1alpha1.ErrorConfigurationProblem
		internal = v1alpha1.ErrorInternalProblem
		cleanup  = v1alpha1.ErrorCleanup
		timeout  = v1alpha1.ErrorTimeout
	)
	plain := errors.New("plain")
	for name, tc := range map[string]struct {
		err  error
		want []v1alpha1.ErrorCode
	}{
		"nil": {nil, nil},
		"innermost first": {
			coded(fmt.Errorf("apply: %w", coded(plain, config)), internal), []v1alpha1.ErrorCode{config, internal},
		},
		"once, at its innermost place": {
			coded(coded(coded(plain, config, cleanup), internal), config), []v1alpha1.ErrorCode{config, cleanup, internal},
		},
		"joined, in order": {
			errors.Join(coded(plain, timeout), plain, fmt.Errorf("second: %w", coded(plain, config))),
			[]v1alpha1.ErrorCode{timeout, config},
		},
	} {
		if diff := cmp.Diff(tc.want, Codes(tc.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFailedToWire(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	inner := &Error{Operation: "Read", Reason: "Broken", Err: plain}
	for name, tc := range map[string]struct {
		err  error
		want *deployerv1.Error
	}{
		"plain": {plain, &deployerv1.Error{Operation: "Delete", Reason: ReasonError, Message: "plain"}},
		"outermost Error, whole text": {
			fmt.Errorf("carry out: %w", &Error{Operation: "Apply", Reason: "Refused", Err: fmt.Errorf("apply: %w", inner)}),
			&deployerv1.Error{Operation: "Apply", Reason: "Refused", Message: "carry out: apply: plain"},
		},
		"a user's mistake": {ConfigurationError("Wrong", "spec.config.a: %w", coded(plain)), &deployerv1.Error{
			Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Delete", Reason: "Wrong", Message: "spec.config.a: plain",
		}},
		"healing, held by another": {
			errors.Join(
				&Error{
					Codes: ConfigurationError("", "").Codes, Reason: "Taken", Held: Claim{DeployItem: "shop.old", What: "it"},
				},
				&Error{Codes: ConfigurationError("", "").Codes, Heals: true}, plain),
			&deployerv1.Error{
				Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Delete", Reason: "Taken", Message: "Taken\n\nplain",
				Heals: true, Held: &deployerv1.Claim{DeployItem: "shop.old", What: "it"},
			},
		},
		"healing in part": {
			errors.Join(&Error{Codes: ConfigurationError("", "").Codes, Reason: "a", Heals: true}, ConfigurationError("b", "b")),
			&deployerv1.Error{
				Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Delete", Reason: "a", Message: "a\nb",
			},
		},
		"no text": {&Error{Reason: "Broken"}, &deployerv1.Error{Operation: "Delete", Reason: "Broken", Message: "Broken"}},
	} {
		want := &deployerv1.Failed{Errors: []*deployerv1.Error{tc.want}}
		if diff := cmp.Diff(want, failedToWire("Delete", tc.err), protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
