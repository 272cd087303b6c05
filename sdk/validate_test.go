package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
)

// validating is a deployer with a Validate, and nothing else.
type validating struct {
	Deployer
	validate func(req *Request) (*ValidateResponse, error)
}

func (v validating) Validate(_ context.Context, req *Request) (*ValidateResponse, error) {
	return v.validate(req)
}

// validate has a deployer answer a request.
func validate(
	t *testing.T, in *deployerv1.ValidateRequest, f func(*Request) (*ValidateResponse, error),
) *deployerv1.ValidateResponse {
	t.Helper()
	s := newServer(&plugin{deployer: validating{validate: f}}, slog.New(slog.DiscardHandler))
	out, err := s.Validate(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Rule (plugin-authors.md#validation): An error with the code `ERR_CONFIGURATION_PROBLEM` counts as problems.
// Rule (plugin-authors.md#validation): Another error means that the check was impossible.
func TestValidateAnswers(t *testing.T) {
	t.Parallel()
	var into struct {
		Count int `json:"count"`
	}
	decoded := func(config string) error {
		return fmt.Errorf("read: %w", requestWithConfig(config).DecodeConfig(&into))
	}
	negative := []Problem{{Field: "count", Message: "expected a positive number, but found -1"}}
	for name, tc := range map[string]struct {
		res      *ValidateResponse
		err      error
		problems []Problem
		failed   string // the reason and the message of its error; empty for none
	}{
		"valid":    {},
		"problems": {res: &ValidateResponse{Problems: negative}, problems: negative},
		"problems as an error, with a reason of its own": {
			err: ConfigurationProblems("Negative", negative), problems: negative,
			failed: "Negative: spec.config: count: expected a positive number, but found -1",
		},
		"what DecodeConfig finds": {
			err: decoded(`{"count":"x","counter":1}`),
			problems: []Problem{
				{Field: "count", Message: "expected a whole number, but found a text"},
				{Field: "counter", Message: "unknown field; did you mean count?"},
			},
			failed: "ParseProviderConfiguration: read: spec.config: count: expected a whole number, but found a text; " +
				`unknown field "counter"; did you mean count?`,
		},
		"one problem": {
			err:      ConfigurationError("Wrong", "spec.config: there is no volume"),
			problems: []Problem{{Field: "spec.config", Message: "there is no volume"}},
			failed:   "Wrong: spec.config: there is no volume",
		},
		"problems and an error": {
			err: errors.Join(ConfigurationProblems("Negative", negative), ConfigurationError("Wrong", "volume: there is none")),
			problems: []Problem{
				negative[0], {Field: "spec.config", Message: "volume: there is none"},
			},
			failed: "Negative: spec.config: count: expected a positive number, but found -1\nvolume: there is none",
		},
		"problems in an error": {
			err:      ConfigurationError("Wrong", "read: %w", ConfigurationProblems("Negative", negative)),
			problems: negative,
			failed:   "Wrong: read: spec.config: count: expected a positive number, but found -1",
		},
		"a problem with a text around it": {
			err:      fmt.Errorf("volume a: %w", ConfigurationError("Wrong", "there is none")),
			problems: []Problem{{Field: "spec.config", Message: "volume a: there is none"}},
			failed:   "Wrong: volume a: there is none",
		},
		"the check was impossible": {err: errors.New("no answer"), failed: "DeployerError: no answer"},
	} {
		out := validate(t, &deployerv1.ValidateRequest{}, func(*Request) (*ValidateResponse, error) { return tc.res, tc.err })
		problems := wire.Each(out.GetProblems(), func(p *deployerv1.Problem) Problem {
			return Problem{Field: p.GetField(), Message: p.GetMessage()}
		})
		if diff := cmp.Diff(tc.problems, problems); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", name, diff)
		}
		failed := ""
		for _, e := range out.GetFailed().GetErrors() {
			failed += e.GetReason() + ": " + e.GetMessage()
		}
		if failed != tc.failed {
			t.Errorf("%s: expected the error %q, but found %q", name, tc.failed, failed)
		}
	}
}

// An older host sends no start.
func TestValidateRequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		start *deployerv1.Start
		item  string
	}{
		"without a start": {nil, ""},
		"with a start":    {&deployerv1.Start{DeployItem: []byte(`{"metadata":{"name":"a"},"spec":{"type":"T"}}`)}, "a"},
		"with a configuration in the item": {
			&deployerv1.Start{DeployItem: []byte(`{"metadata":{"name":"a"},"spec":{"type":"T","config":{"kind":"K"}}}`)}, "a",
		},
	} {
		in := &deployerv1.ValidateRequest{
			DeployItemType: "T", ProviderConfiguration: []byte(`{"apiVersion":"a/v1","kind":"K"}`), Start: tc.start,
		}
		validate(t, in, func(req *Request) (*ValidateResponse, error) {
			apiVersion, kind := req.ConfigGroupVersionKind()
			got := []any{req.DeployItem.Name, string(req.DeployItem.Spec.Type), apiVersion, kind, req.Context != nil}
			if diff := cmp.Diff([]any{tc.item, "T", "a/v1", "K", true}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			_, err := req.ResolveTarget(t.Context(), "other")
			if picked := req.PickUp(t.Context()); picked != nil || err == nil {
				t.Errorf("%s: expected no way to ask and no pick-up, but found %v, %v", name, err, picked)
			}
			return nil, nil
		})
	}
}
