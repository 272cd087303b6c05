package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Rule (migrate.md#check, /AsItIs): An item is taken over as it is if only labels and annotations are written.
func TestJudge(t *testing.T) {
	t.Parallel()
	state := func(metadata, data string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"kind":"ConfigMap","metadata":{"name":"a"%s},"data":%s}`, metadata, data))
	}
	const marks = `,"resourceVersion":"7","labels":{"pergola.dev/deployitem":"a.b"},` +
		`"annotations":{"pergola.dev/installation":"c"}`
	update := func(before, after json.RawMessage) sdk.Change {
		return sdk.Change{Object: "ConfigMap a", Action: sdk.ActionUpdate, Before: before, After: after}
	}
	for _, test := range []struct {
		name    string
		found   []sdk.Change
		err     error
		want    verdict
		details []string
	}{
		{"AsItIs", []sdk.Change{update(state("", `{}`), state(marks, `{}`))}, nil, asItIs, nil},
		{"of Landscaper", []sdk.Change{update(
			state(`,"labels":{"helm.deployer.landscaper.gardener.cloud/deployitem":"b"}`, `{}`), state(marks, `{}`),
		)}, nil, asItIs, nil},
		{"another label", []sdk.Change{update(state("", `{}`), state(`,"labels":{"a":"b"}`, `{}`))}, nil, changes, []string{
			"update ConfigMap a",
		}},
		{"another value", []sdk.Change{update(state("", `{}`), state(marks, `{"a":"b"}`))}, nil, changes, []string{
			"update ConfigMap a",
		}},
		{"take-over of a release", []sdk.Change{{Object: "Release a", Action: sdk.ActionUpdate, Note: "it exists"}},
			nil, asItIs, nil},
		{"nothing to write, but deleted", []sdk.Change{{Object: "ConfigMap a", Action: sdk.ActionDelete}}, nil, changes,
			[]string{"delete ConfigMap a"}},
		{"one fails", []sdk.Change{
			{Object: "ConfigMap a", Action: sdk.ActionFail, Note: "forbidden"},
			{Object: "ConfigMap b", Action: sdk.ActionCreate},
		}, nil, fails, []string{"fail ConfigMap a: forbidden", "create ConfigMap b"}},
		{"error", nil, errors.Join(errors.New("one"), errors.New("two")), fails, []string{"one", "two"}},
		{"no plugin", nil, fmt.Errorf("%w a; %w", local.ErrNotServed, errors.New("b")), notServed,
			[]string{"no plugin serves the type a; b"}},
		{"no comparison", nil, fmt.Errorf("mock: %w", local.ErrCannotCompare), notCompared, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, details := judge(test.found, test.err)
			if got != test.want {
				t.Errorf("expected %s, but found %s", test.want, got)
			}
			if diff := cmp.Diff(test.details, details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnfinished(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for _, test := range []struct {
		name string
		item v1alpha1.DeployItem
		want bool
	}{
		{"finished", v1alpha1.DeployItem{Status: v1alpha1.DeployItemStatus{JobID: "a", JobIDFinished: "a"}}, false},
		{"never had a job", v1alpha1.DeployItem{}, false},
		{"under way", v1alpha1.DeployItem{Status: v1alpha1.DeployItemStatus{JobID: "b", JobIDFinished: "a"}}, true},
		{"deleted", v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, true},
	} {
		if got := unfinished(&test.item) != ""; got != test.want {
			t.Errorf("%s: expected unfinished %t, but found %t", test.name, test.want, got)
		}
	}
}
