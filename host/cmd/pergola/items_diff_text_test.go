package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func reportOf(changes ...sdk.Change) *diffReport {
	item := &v1alpha1.DeployItem{}
	item.Namespace, item.Name = "shop", "web"
	return newDiffReport(item, changes)
}

// everyAction has a change of each kind.
func everyAction() *diffReport {
	return reportOf(
		sdk.Change{Object: "Namespace shop", Action: sdk.ActionCreate, After: json.RawMessage(`{"kind":"Namespace","metadata":{"name":"shop"}}`)},
		sdk.Change{
			Object: "ConfigMap shop/settings", Action: sdk.ActionUpdate,
			Before: json.RawMessage(`{"apiVersion":"v1","data":{"a":"1","b":"2","c":"3","d":"4","colour":"green","n":9007199254740993,"text":"one\ntwo\n"},"kind":"ConfigMap"}`),
			After:  json.RawMessage(`{"apiVersion":"v1","data":{"a":"0","b":"2","c":"3","d":"4","colour":"green","n":9007199254740995,"text":"one\nthree\n"},"kind":"ConfigMap"}`),
		},
		sdk.Change{
			Object: "Job shop/migrate", Action: sdk.ActionRecreate, Note: "spec.template is immutable",
			Before: json.RawMessage(`{"spec":{"template":1}}`), After: json.RawMessage(`{"spec":{"template":2}}`),
		},
		sdk.Change{Object: "Secret shop/old", Action: sdk.ActionDelete, Before: json.RawMessage(`{"data":{"password":"(hidden)"}}`)},
		sdk.Change{Object: "PersistentVolumeClaim shop/data", Action: sdk.ActionKeep, Before: json.RawMessage(`{"a":1}`)},
		sdk.Change{Object: "Deployment shop/web", Action: sdk.ActionFail, Note: "spec.selector: is immutable\nset recreate: true\x1b[31m"},
		sdk.Change{Object: "Secret shop/same", Action: sdk.ActionUpdate, Note: "what differs is hidden", Before: json.RawMessage(`{"a":1}`), After: json.RawMessage(`{"a":1}`)},
	)
}

func TestDiffText(t *testing.T) {
	t.Parallel()
	for name, colour := range map[string]string{"diff.golden.txt": colourNever, "diff-colour.golden.txt": colourAlways} {
		expectGolden(t, name, everyAction().text(paletteOf(colour, nil)))
	}
}

func TestDiffSummary(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason  string
		changes []sdk.Change
		want    string
		code    int
	}{
		{reason: "nothing", want: "Nothing to change."},
		{reason: "the usual ones are always told", changes: []sdk.Change{{Action: sdk.ActionUpdate}}, want: "0 to create, 1 to update, 0 to delete.", code: 1},
		{reason: "what is kept is given up", changes: []sdk.Change{{Action: sdk.ActionKeep}}, want: "0 to create, 0 to update, 0 to delete, 1 to keep.", code: 1},
		{
			reason: "a job that fails is an error", changes: []sdk.Change{{Action: sdk.ActionCreate}, {Action: sdk.ActionFail}},
			want: "1 to create, 0 to update, 0 to delete, 1 to fail.", code: 2,
		},
	} {
		r := reportOf(tc.changes...)
		if diff := cmp.Diff(tc.want, r.summary()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
		if got := codeOf(r.verdict()); got != tc.code {
			t.Errorf("%s: expected the exit code %d, but found %d", tc.reason, tc.code, got)
		}
	}
}

func codeOf(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	default:
		return 1
	}
}
