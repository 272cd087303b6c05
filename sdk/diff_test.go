package sdk

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestDiffFails(t *testing.T) {
	t.Parallel()
	const secret = "0123456789"
	good, noJSON := Change{Object: "a", Action: ActionDelete}, json.RawMessage(`{"data":"`+secret)
	const internal = v1alpha1.ErrorInternalProblem
	for name, tc := range map[string]struct {
		changes []Change
		err     error
		code    v1alpha1.ErrorCode
		named   []string // parts of the message
	}{
		"the deployer's error": {
			[]Change{good}, ConfigurationError("Wrong", "there are none"), v1alpha1.ErrorConfigurationProblem,
			[]string{"there are none"},
		},
		"secrets cannot be found in it, and a good change does not make up for it": {
			[]Change{good, {Object: "Secret b", Action: ActionCreate, After: noJSON}}, nil, internal,
			[]string{"change 1", "Secret b", "after", "JSON object"},
		},
		"unknown action": {[]Change{{Object: "a", Action: "explode"}}, nil, internal, []string{"explode", "recreate"}},
		"no object":      {[]Change{{Action: ActionDelete}}, nil, internal, []string{"change 0", "1 to 1024"}},
		"long object": {
			[]Change{{Object: strings.Repeat("x", 1025), Action: ActionDelete}}, nil, internal, []string{"1025"},
		},
	} {
		out := diffToWire(&DiffResponse{Changes: tc.changes}, tc.err)
		if out.GetChanges() != nil || len(out.GetFailed().GetErrors()) != 1 {
			t.Errorf("%s: expected a failure without changes, but found %v", name, out)
			continue
		}
		found := out.GetFailed().GetErrors()[0]
		if !slices.Equal(found.GetCodes(), []string{string(tc.code)}) || strings.Contains(found.GetMessage(), secret) {
			t.Errorf("%s: expected the code %s without the object, but found %v", name, tc.code, found)
		}
		for _, part := range tc.named {
			if !strings.Contains(found.GetMessage(), part) {
				t.Errorf("%s: expected the message to name %s, but found: %v", name, part, found)
			}
		}
	}
}
