package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// A byte that is not UTF-8, such as of another program's output, costs no more than itself: all else arrives as the
// deployer gave it.
// Rule (protocol.md#rules): A byte outside UTF-8 costs no more than itself: texts arrive with U+FFFD in its place.
func TestTextsThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	const text, want = "volume Gr\xfcn", "volume Gr\uFFFDn"
	document := json.RawMessage(`{"apiVersion":"a/v1","kind":"B","name":"` + text + `"}`)
	call := func(res *sdk.Response, err error) *sdktest.Result {
		return sdktest.New(t, fake{reconcile: func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
			req.Progress("Look", text)
			req.Event("Found", text)
			return res, errors.Join(err, req.SaveProviderStatus(ctx, document))
		}}, options()...).Reconcile(t.Context(), emptyCall())
	}
	failed := call(nil, &sdk.Error{Reason: "Boom", Err: errors.New(text)})
	if failed.Failed == nil {
		t.Fatalf("expected a failure, but found %s", failed)
	}
	found := failed.Failed.Errors[0]
	saved := `{"apiVersion":"a/v1","kind":"B","name":"` + want + `"}`
	if diff := cmp.Diff([]string{"Boom", want, saved},
		[]string{found.Reason, found.Message, string(failed.ProviderStatus)}); diff != "" {
		t.Errorf("failure (-want +got):\n%s", diff)
	}
	for _, m := range failed.Messages {
		if m.Progress != nil && m.Progress.Message != want || m.Event != nil && m.Event.Message != want {
			t.Errorf("expected %q, but found %+v", want, m)
		}
	}
	waiting := call(sdk.WaitFor(text, 0), nil)
	if waiting.InProgress == nil || waiting.InProgress.WaitingFor != want {
		t.Errorf("expected to wait for %q, but found %s", want, waiting)
	}
	exports := map[string]any{"a": json.RawMessage(`"` + text + `"`)}
	succeeded := call(&sdk.Response{Exports: exports}, nil)
	if succeeded.Succeeded == nil || succeeded.Succeeded.Exports["a"] != want {
		t.Errorf("expected the export %q, but found %s", want, succeeded)
	}
}
