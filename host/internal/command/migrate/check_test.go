package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
		{"an object to wait for", []sdk.Change{
			{Object: "Service a", Action: sdk.ActionUpdate, Note: "a warning", Waits: "no address"},
			{Object: "Service b", Action: sdk.ActionKeep, Waits: "no address"},
		}, nil, differs, []string{
			"Service a: the job waits for it: no address", "Service b: the job waits for it: no address",
		}},
		{"an object to wait for, and a change", []sdk.Change{
			{Object: "Service a", Action: sdk.ActionUpdate, Waits: "no address"},
			{Object: "Service b", Action: sdk.ActionDelete},
		}, nil, changes, []string{"Service a: the job waits for it: no address", "delete Service b"}},
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

// Rule (migrate.md#check): The check names what works differently from then on.
func TestDifferences(t *testing.T) {
	t.Parallel()
	const helm, manifest = `"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha1"`,
		`"apiVersion":"manifest.deployer.landscaper.gardener.cloud/v1alpha1"`
	const timeouts = `"helmDeploymentConfig":{"install":{"atomic":true},"upgrade":{"timeout":"1s"}}`
	for name, test := range map[string]struct {
		config string
		want   []string
	}{
		"none":     {`{}`, nil},
		"unclear":  {`{"continuousReconcile":{"every":"1h"},"exports":[]}`, nil},
		"schedule": {`{"continuousReconcile":{"every":"1h"}}`, []string{"continuousReconcile: it starts jobs"}},
		"no times": {`{"continuousReconcile":{}}`, nil},
		"old":      {`{` + manifest + `,"exports":{"exports":[]}}`, []string{"exports: also count in v1alpha1"}},
		"old group": {`{` + manifest + `,"exports":{"a":1},"deletionGroups":[{}]}`,
			[]string{"deletionGroups, exports: also count in v1alpha1"}},
		"new": {`{"apiVersion":"manifest.deployer.landscaper.gardener.cloud/v1alpha2","deletionGroups":[{}]}`, nil},
		"release": {`{` + helm + `,"createNamespace":true,` + timeouts + `}`,
			[]string{"helmDeploymentConfig.upgrade.timeout: 1s applies"}},
		"no release": {`{` + helm + `,"createNamespace":true,"helmDeployment":false,` + timeouts + `}`,
			[]string{"createNamespace: the namespace is kept when the item is deleted"}},
	} {
		item := &v1alpha1.DeployItem{Spec: v1alpha1.DeployItemSpec{Config: &runtime.RawExtension{Raw: []byte(test.config)}}}
		if diff := cmp.Diff(test.want, differences(item)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
	if got := differences(&v1alpha1.DeployItem{}); got != nil {
		t.Errorf("expected nothing about an item without configuration, but found %v", got)
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
