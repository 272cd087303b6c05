package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// differ is a Differ made of a function.
type differ struct {
	fake

	diff func(ctx context.Context, req *sdk.Request) (*sdk.DiffResponse, error)
}

func (d differ) Diff(ctx context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	return d.diff(ctx, req)
}

// answering is a Differ that answers with changes.
func answering(changes ...sdk.Change) differ {
	return differ{diff: func(context.Context, *sdk.Request) (*sdk.DiffResponse, error) {
		return &sdk.DiffResponse{Changes: changes}, nil
	}}
}

func TestDiffTellsChanges(t *testing.T) {
	t.Parallel()
	changes := []sdk.Change{
		{Object: "ConfigMap a/b", Action: sdk.ActionCreate, After: json.RawMessage(`{"kind":"ConfigMap"}`)},
		{
			Object: "Secret a/b", Action: sdk.ActionUpdate,
			Before: json.RawMessage(`{"data":{"a":"YQ=="},"kind":"Secret"}`),
			After:  json.RawMessage(`{"data":{"a":"Yg=="},"kind":"Secret"}`),
		},
		{Object: "Rose \xff", Action: sdk.ActionFail, Note: "the garden \xff is closed"},
	}
	plugin := sdktest.New(t, answering(changes...), options()...)
	if !plugin.Info().Capabilities.Diff {
		t.Error("the capability diff is not claimed")
	}
	got, err := plugin.Diff(t.Context(), emptyCall())
	if err != nil {
		t.Fatal(err)
	}
	want := []sdk.Change{
		changes[0],
		{
			Object: "Secret a/b", Action: sdk.ActionUpdate,
			Before: json.RawMessage(`{"data":{"a":"*** (before)"},"kind":"Secret"}`),
			After:  json.RawMessage(`{"data":{"a":"*** (after)"},"kind":"Secret"}`),
		},
		{Object: "Rose \uFFFD", Action: sdk.ActionFail, Note: "the garden \uFFFD is closed"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestDiffFails(t *testing.T) {
	t.Parallel()
	const secret = "0123456789"
	tests := map[string]struct {
		reason string
		differ differ
		code   v1alpha1.ErrorCode
		// wantNamed are parts of the message.
		wantNamed []string
	}{
		"Error": {
			reason: "an error is that of the deployer",
			differ: differ{diff: func(context.Context, *sdk.Request) (*sdk.DiffResponse, error) {
				return nil, sdk.ConfigurationError("Wrong", "spec.config.manifests: there are none")
			}},
			code:      v1alpha1.ErrorConfigurationProblem,
			wantNamed: []string{"spec.config.manifests"},
		},
		"NoJSON": {
			reason: "secrets cannot be found in what is no JSON",
			differ: answering(sdk.Change{
				Object: "Secret a/b", Action: sdk.ActionCreate, After: json.RawMessage(`{"kind":"Secret","data":{"a":"` + secret),
			}),
			code:      v1alpha1.ErrorInternalProblem,
			wantNamed: []string{"change 0", "Secret a/b", "after", "JSON object"},
		},
		"SecondNoJSON": {
			reason: "a change that is good does not make up for another",
			differ: answering(sdk.Change{Object: "a", Action: sdk.ActionDelete},
				sdk.Change{Object: "b", Action: sdk.ActionDelete, Before: json.RawMessage(secret)}),
			code:      v1alpha1.ErrorInternalProblem,
			wantNamed: []string{"change 1", "before"},
		},
		"UnknownAction": {
			reason:    "nobody could show it",
			differ:    answering(sdk.Change{Object: "a", Action: "explode"}),
			code:      v1alpha1.ErrorInternalProblem,
			wantNamed: []string{"explode", "recreate"},
		},
		"NoObject": {
			reason:    "a change is that of something",
			differ:    answering(sdk.Change{Action: sdk.ActionDelete}),
			code:      v1alpha1.ErrorInternalProblem,
			wantNamed: []string{"change 0", "1 to 1024"},
		},
		"LongObject": {
			reason:    "the host would refuse it",
			differ:    answering(sdk.Change{Object: strings.Repeat("x", 1025), Action: sdk.ActionDelete}),
			code:      v1alpha1.ErrorInternalProblem,
			wantNamed: []string{"1025"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes, err := sdktest.New(t, tc.differ, options()...).Diff(t.Context(), emptyCall())
			var failed *sdktest.Failed
			if !errors.As(err, &failed) || changes != nil {
				t.Fatalf("%s: expected a failure without changes, but found %v, error %v", tc.reason, changes, err)
			}
			if diff := cmp.Diff([]v1alpha1.ErrorCode{tc.code}, failed.Codes()); diff != "" {
				t.Errorf("%s: codes (-want +got):\n%s", tc.reason, diff)
			}
			for _, part := range tc.wantNamed {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: expected the message to name %s, but found: %v", tc.reason, part, err)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error shows the object: %v", tc.reason, err)
			}
		})
	}
}

// A diff sends nothing to the host, and asks it nothing.
func TestDiffHasNoHostToAsk(t *testing.T) {
	t.Parallel()
	talkative := differ{diff: func(ctx context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
		req.Progress("Diff", "still at it")
		req.Event("Diff", "nothing has happened")
		if err := req.SaveProviderStatus(ctx, document("")); err != nil {
			return nil, err
		}
		if _, err := req.ResolveTarget(ctx, "other"); err == nil {
			return nil, errors.New("a Target was resolved")
		} else if !strings.Contains(err.Error(), "Reconcile") {
			return nil, err
		}
		return nil, nil
	}}
	call := emptyCall()
	call.Targets = map[string]*sdk.Target{"other": {Name: "other"}}
	changes, err := sdktest.New(t, talkative, options()...).Diff(t.Context(), call)
	if err != nil || len(changes) != 0 {
		t.Errorf("expected no changes, but found %v, error %v", changes, err)
	}
}
