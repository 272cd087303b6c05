package inspect

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// ManagedObject is an object that a deployer has made for an item, or is about to make.
type ManagedObject struct {
	managedresource.ObjectReference

	// Policy that the object was applied with; empty for the usual one.
	Policy managedresource.Policy
	// OnHost: it is on the cluster that the host runs containers in, and not on that of the Target.
	OnHost bool
	// Gone says why the object is not there any more although its deployer has done with it what it is for; empty for any other.
	Gone string
}

// ManagedObjects returns the objects that the deployer of an item keeps in its status; false if it keeps none of a kind that is known here.
func ManagedObjects(item *v1alpha1.DeployItem) ([]ManagedObject, bool) {
	if item.Status.ProviderStatus == nil {
		return nil, false
	}
	raw := item.Status.ProviderStatus.Raw
	if item.Spec.Type == containerv1alpha1.Type {
		return podOf(raw)
	}
	var status struct {
		ManagedResources *[]struct {
			managedresource.ManagedResourceStatus `json:",inline"`
			// ObjectReference is the older form of an entry, which a Landscaper may have left.
			managedresource.ObjectReference `json:",inline"`
		} `json:"managedResources"`
	}
	if json.Unmarshal(raw, &status) != nil || status.ManagedResources == nil {
		return nil, false
	}
	objects := make([]ManagedObject, 0, len(*status.ManagedResources))
	for _, m := range *status.ManagedResources {
		if m.Resource.Kind == "" {
			m.Resource = m.ObjectReference
		}
		objects = append(objects, ManagedObject{ObjectReference: m.Resource, Policy: m.Policy})
	}
	return objects, true
}

// podOf returns the Pod that the container deployer has run last.
func podOf(raw []byte) ([]ManagedObject, bool) {
	var status containerv1alpha1.ProviderStatus
	if json.Unmarshal(raw, &status) != nil || status.Run == nil {
		return nil, false
	}
	run := status.Run
	pod := ManagedObject{
		ObjectReference: managedresource.ObjectReference{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Pod", Namespace: run.Namespace, Name: run.Name, UID: run.PodUID,
		},
		OnHost: !run.OnTarget,
	}
	if run.Cleared {
		pod.Gone = "the run is over, and its Pod is removed: " + string(run.Outcome)
	}
	return []ManagedObject{pod}, true
}
