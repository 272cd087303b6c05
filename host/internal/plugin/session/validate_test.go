package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// TestValidateRequest: an older plugin finds type and configuration where it looks for them, a newer one the item with
// its Context, and neither of them gets credentials.
func TestValidateRequest(t *testing.T) {
	t.Parallel()
	call := fullCall()
	call.DeployItem.Spec.Type, call.Forced = "T", true
	config := string(call.DeployItem.Spec.Config.Raw)
	for separate, itemHasConfig := range map[bool]bool{false: true, true: false} {
		var in *deployerv1.ValidateRequest
		c := connect(t, &peer{validate: func(got *deployerv1.ValidateRequest) (*deployerv1.ValidateResponse, error) {
			in = got
			return &deployerv1.ValidateResponse{}, nil
		}})
		c.Serve(&hostside.Info{Capabilities: hostside.Capabilities{
			SeparateDocuments: separate, ContextCredentials: true, ContextOCMConfig: true,
		}}, Grants{})
		found, err := c.Validate(t.Context(), call)
		if err != nil || len(found.Errors)+len(found.Problems) > 0 {
			t.Fatalf("separate documents %t: expected a valid configuration, but found %v, %v", separate, found, err)
		}
		start := in.GetStart()
		got := []any{
			in.GetDeployItemType(), string(in.GetProviderConfiguration()), start.GetJobId(), start.GetForced(),
			strings.Contains(string(start.GetDeployItem()), config), string(start.GetProviderConfiguration()),
			len(start.GetProviderStatus()) > 0, strings.Contains(string(start.GetContext()), `"other":{"a":1}`),
			start.GetTarget(), start.GetCredentials(), start.GetOcmConfig(), start.GetHostCluster(),
		}
		want := []any{
			"T", config, "job", true, itemHasConfig, "", separate, true,
			[]byte(nil), (*deployerv1.Credentials)(nil), (*deployerv1.OCMConfig)(nil), (*deployerv1.HostCluster)(nil),
		}
		if diff := cmp.Diff(want, got); diff != "" || strings.Contains(in.String(), theSecret) {
			t.Errorf("separate documents %t, or there are credentials (-want +got):\n%s", separate, diff)
		}
	}
}

// TestValidateAnswer: an older plugin has problems only, or an error of the call.
func TestValidateAnswer(t *testing.T) {
	t.Parallel()
	wire := []*deployerv1.Problem{{Field: "a", Message: "wrong"}, {Field: "spec.config", Message: "x"}}
	problems := []sdk.Problem{{Field: "a", Message: "wrong"}, {Field: "spec.config", Message: "x"}}
	for name, tc := range map[string]struct {
		out  *deployerv1.ValidateResponse
		err  error
		want *hostside.Validation
	}{
		"problems": {&deployerv1.ValidateResponse{Problems: wire}, nil, &hostside.Validation{
			Errors: []hostside.Error{{
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "Reconcile",
				Reason: "ValidateProviderConfiguration", Message: "spec.config: a: wrong; x",
			}}, Problems: problems,
		}},
		"an error of its own": {
			&deployerv1.ValidateResponse{Problems: wire, Failed: wireFailure("own")}, nil,
			&hostside.Validation{
				Errors: []hostside.Error{{Operation: "Do", Reason: "Wrong", Message: "own"}}, Problems: problems,
			},
		},
		"an error of the call": {nil, status.Error(codes.Unknown, "validate: no"), nil},
	} {
		c := connect(t, &peer{validate: func(*deployerv1.ValidateRequest) (*deployerv1.ValidateResponse, error) {
			return tc.out, tc.err
		}})
		found, err := c.Validate(t.Context(), fullCall())
		if diff := cmp.Diff(tc.want, found); diff != "" || errors.Is(err, ErrProtocol) != (tc.want == nil) {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
}
