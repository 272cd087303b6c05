package desired

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// keepers carry over the fields that the API server or a controller fills in once and an update must neither lack nor
// change. They come from the live object where the manifest does not have them. Fields protected by a refusal of the
// API server need not be here, see package apply; an entry saves the refused request.
//
// Fields kept by the API server itself are not here, such as the node ports of a Service and the finalizers of a
// Namespace. The annotations of controllers are: their loss would look like a change in each comparison with an object
// that this deploy item has not written yet, even where the controller writes them again.
var keepers = map[schema.GroupKind]func(out, live *unstructured.Unstructured){
	{Group: "batch", Kind: "Job"}:       keepPodSelector,
	{Group: "apps", Kind: "Deployment"}: keepFields(annotation("deployment.kubernetes.io/revision")),
	{Kind: "PersistentVolumeClaim"}: keepFields(
		annotation("pv.kubernetes.io/bind-completed"), annotation("pv.kubernetes.io/bound-by-controller"),
		annotation("volume.kubernetes.io/selected-node"), annotation("volume.kubernetes.io/storage-provisioner"),
		annotation("volume.beta.kubernetes.io/storage-provisioner"),
	),
	{Kind: "Service"}:        keepClusterIP,
	{Kind: "Secret"}:         keepToken,
	{Kind: "ServiceAccount"}: keepFields([]string{"secrets"}),
	{Kind: "PersistentVolume"}: keepFields(
		[]string{"spec", "claimRef"},
		annotation("pv.kubernetes.io/bound-by-controller"), annotation("pv.kubernetes.io/provisioned-by"),
	),
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: keepAggregatedRules,
}

// annotation returns the path of an annotation.
func annotation(key string) []string { return []string{"metadata", "annotations", key} }

func keepFields(paths ...[]string) func(out, live *unstructured.Unstructured) {
	return func(out, live *unstructured.Unstructured) {
		for _, path := range paths {
			carryOver(out, live, path...)
		}
	}
}

// keepPodSelector keeps the selector of a Job and the labels of its pods.
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
	_, chosen, _ := unstructured.NestedFieldNoCopy(out.Object, "spec", "clusterIP")
	if object.Text(out.Object, "spec", "type") == "ExternalName" || chosen {
		return
	}
	carryOver(out, live, "spec", "clusterIP")
	carryOver(out, live, "spec", "clusterIPs")
}

// keepToken keeps the token of a service account in its Secret: without it a controller would issue a new one, and
// lock out the holders of the old one.
func keepToken(out, live *unstructured.Unstructured) {
	if out.Object["type"] != "kubernetes.io/service-account-token" {
		return
	}
	carryOver(out, live, "data")
	carryOver(out, live, annotation("kubernetes.io/service-account.uid")...)
}

// keepAggregatedRules keeps the rules filled in by a controller. In any other role no rules are no permissions.
func keepAggregatedRules(out, live *unstructured.Unstructured) {
	if out.Object["aggregationRule"] != nil {
		carryOver(out, live, "rules")
	}
}
