package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// oneTarget is the configuration of a host for one Target, whose items are to be picked up soon.
const oneTarget = `apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
timeouts: {pickup: 2s}
targetSelectors:
- targets: [{name: other}]
`

// A job that no deployer picks up fails, and the next change of the item gets another one.
func TestPickupTimeout(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "mock"), Standalone: true,
		Config: writeConfig(t, oneTarget),
	})
	namespace := newNamespace(t)
	createTarget(t, namespace, "one")
	createTarget(t, namespace, "other")
	item := withTarget(newItem(namespace, "item", mockType, mockSucceeds), "one")
	create(t, item)

	item = waitFor(t, item, "Failed", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseFailed })

	type outcome struct {
		Finished                   bool
		ObservedGeneration         int64
		Operation, Reason, Message string
		Codes                      []v1alpha1.ErrorCode
	}
	got := outcome{Finished: item.Status.JobID == item.Status.JobIDFinished, ObservedGeneration: item.Status.ObservedGeneration}
	if e := item.Status.LastError; e != nil {
		got.Operation, got.Reason, got.Message, got.Codes = e.Operation, e.Reason, e.Message, e.Codes
	}
	want := outcome{
		Finished: true, ObservedGeneration: item.Generation, Operation: "WaitingForPickup", Reason: "PickupTimeout",
		Message: "no deployer has reconciled this deployitem within 2 seconds", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}

	edit(t, item, func() {
		item.Spec.Target.Name = "other"
		item.Annotations[v1alpha1.DeployerTargetNameAnnotation] = "other"
	})
	waitFor(t, item, "Succeeded", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded })
}
