package inspect

import (
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/move"
	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// managedObject is an object of an item, deployed or planned.
type managedObject struct {
	managedresource.ObjectReference

	// policy of the apply; "" for the default.
	policy managedresource.Policy
	// onHost reports whether the object is on the host's cluster for containers instead of the target cluster.
	onHost bool
	// gone is the reason of the deployer's removal of the object; "" for an existing object.
	gone string
}

var errNoObjects = errors.New("its deployer keeps none in the status of the item")

// managedObjects returns the objects in the provider status of an item; errNoObjects for an unknown kind of status.
func managedObjects(item *v1alpha1.DeployItem) ([]managedObject, error) {
	saved := move.View(item, move.Of(item)).Status.ProviderStatus
	if saved == nil {
		return nil, errNoObjects
	}
	raw := saved.Raw
	if item.Spec.Type == containerv1alpha1.Type {
		return podOf(raw)
	}
	var status struct {
		ManagedResources *[]struct {
			managedresource.ManagedResourceStatus `json:",inline"`
			// ObjectReference is the old form of an entry, possibly from a Landscaper.
			managedresource.ObjectReference `json:",inline"`
		} `json:"managedResources"`
	}
	if json.Unmarshal(raw, &status) != nil || status.ManagedResources == nil {
		return nil, errNoObjects
	}
	objects := make([]managedObject, 0, len(*status.ManagedResources))
	for _, m := range *status.ManagedResources {
		if m.Resource.Kind == "" {
			m.Resource = m.ObjectReference
		}
		if m.Policy == managedresource.PolicyManage {
			m.Policy = ""
		}
		objects = append(objects, managedObject{ObjectReference: m.Resource, policy: m.Policy})
	}
	return objects, nil
}

// podOf returns the last Pod of the container deployer.
func podOf(raw []byte) ([]managedObject, error) {
	var status containerv1alpha1.ProviderStatus
	if json.Unmarshal(raw, &status) != nil || status.Run == nil {
		return nil, errNoObjects
	}
	run := status.Run
	pod := managedObject{
		ObjectReference: managedresource.ObjectReference{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod",
			Namespace: run.Namespace, Name: run.Name, UID: run.PodUID,
		},
		onHost: !run.OnTarget,
	}
	if run.Cleared {
		pod.gone = "the run is over, and its Pod is removed: " + string(run.Outcome)
	}
	return []managedObject{pod}, nil
}
