package apply

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// keepers take over what the API server or a controller fills in once and what must not be missing or different in an
// update. It comes from the live object where the manifest does not have it. What the API server refuses to remove need
// not be here, see changeRetaining; those that are save the request that is refused.
//
// Fields that the API server itself keeps are not here, such as the node ports of a Service and the finalizers of a
// Namespace, nor are those that a controller fills in again with the same value.
var keepers = map[schema.GroupKind]func(out, live *unstructured.Unstructured){
	{Group: "batch", Kind: "Job"}: keepPodSelector,
	{Kind: "Service"}:             keepClusterIP,
	{Kind: "Secret"}:              keepToken,
	{Kind: "ServiceAccount"}:      keepFields([]string{"secrets"}),
	{Kind: "PersistentVolume"}:    keepFields([]string{"spec", "claimRef"}),
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: keepAggregatedRules,
}

// keepFields keeps the fields at the paths.
func keepFields(paths ...[]string) func(out, live *unstructured.Unstructured) {
	return func(out, live *unstructured.Unstructured) {
		for _, path := range paths {
			carryOver(out, live, path...)
		}
	}
}

// keepPodSelector keeps the selector and the labels by which a Job finds its pods.
func keepPodSelector(out, live *unstructured.Unstructured) {
	carryOver(out, live, "spec", "selector")
	path := []string{"spec", "template", "metadata", "labels"}
	set, _, _ := unstructured.NestedStringMap(live.Object, path...)
	for key := range set {
		carryOver(out, live, append(path, key)...)
	}
}

// keepClusterIP keeps the addresses of a Service, unless it is to have none or the manifest chooses one.
func keepClusterIP(out, live *unstructured.Unstructured) {
	serviceType, _, _ := unstructured.NestedString(out.Object, "spec", "type")
	_, chosen, _ := unstructured.NestedFieldNoCopy(out.Object, "spec", "clusterIP")
	if serviceType == "ExternalName" || chosen {
		return
	}
	carryOver(out, live, "spec", "clusterIP")
	carryOver(out, live, "spec", "clusterIPs")
}

// keepToken keeps the token of a service account in the Secret that asks for it: without it a controller would issue a
// new one, and whoever has copied the old one would be locked out.
func keepToken(out, live *unstructured.Unstructured) {
	if out.Object["type"] != "kubernetes.io/service-account-token" {
		return
	}
	carryOver(out, live, "data")
	carryOver(out, live, "metadata", "annotations", "kubernetes.io/service-account.uid")
}

// keepAggregatedRules keeps the rules that a controller fills in. In any other role no rules are no permissions.
func keepAggregatedRules(out, live *unstructured.Unstructured) {
	if out.Object["aggregationRule"] != nil {
		carryOver(out, live, "rules")
	}
}

// child returns the map in a path of fields, itself and not a copy; nil if there is none.
func child(fields map[string]any, path ...string) map[string]any {
	for _, name := range path {
		fields, _ = fields[name].(map[string]any)
	}
	return fields
}

// objectsIn returns the maps in a list.
func objectsIn(list any) []map[string]any {
	var out []map[string]any
	elements, _ := list.([]any)
	for _, element := range elements {
		if m, ok := element.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
