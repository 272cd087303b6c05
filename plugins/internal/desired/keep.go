package desired

import (
	"slices"
	"strings"

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
	{Group: "apps", Kind: "Deployment"}: keepAnnotationsOf("deployment.kubernetes.io"),
	{Kind: "PersistentVolumeClaim"}: keepAnnotationsOf(
		"pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io",
	),
	{Kind: "Service"}:          keepClusterIP,
	{Kind: "Secret"}:           keepToken,
	{Kind: "ServiceAccount"}:   keepFields([]string{"secrets"}),
	{Kind: "PersistentVolume"}: keepPersistentVolume,
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}: keepAggregatedRules,
}

// keepPersistentVolume keeps what ties a volume to its claim and to its driver.
func keepPersistentVolume(out, live *unstructured.Unstructured) {
	carryOver(out, live, "spec", "claimRef")
	keepAnnotationsOf("pv.kubernetes.io", "volume.kubernetes.io")(out, live)
}

// keepAnnotationsOf keeps the annotations of domains, which are those of controllers of Kubernetes.
func keepAnnotationsOf(domains ...string) func(out, live *unstructured.Unstructured) {
	return func(out, live *unstructured.Unstructured) {
		for key := range live.GetAnnotations() {
			if domain, _, _ := strings.Cut(key, "/"); slices.Contains(domains, domain) {
				carryOver(out, live, "metadata", "annotations", key)
			}
		}
	}
}

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
	carryOver(out, live, "metadata", "annotations", "kubernetes.io/service-account.uid")
}

// keepAggregatedRules keeps the rules filled in by a controller. In any other role no rules are no permissions.
func keepAggregatedRules(out, live *unstructured.Unstructured) {
	if out.Object["aggregationRule"] != nil {
		carryOver(out, live, "rules")
	}
}
