package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// carried are fields that the API server or a controller fills in once and that must not be missing or different in an update.
// They are taken from the live object where the manifest does not have them.
var carried = []struct {
	group, kind string
	path        []string
}{
	{"batch", "Job", []string{"spec", "selector"}},
	{"", "ServiceAccount", []string{"secrets"}},
	{"", "PersistentVolumeClaim", []string{"spec", "volumeName"}},
	{"", "PersistentVolumeClaim", []string{"spec", "storageClassName"}},
	{"", "PersistentVolume", []string{"spec", "claimRef"}},
}

// replacement returns the object to write over live so that it becomes what the manifest says. It holds the live object's
// resourceVersion, so that a change in between is noticed. Kept from the live object are its status, finalizers and owners
// that others have added, and the fields that the API server insists on.
func replacement(manifest, live *unstructured.Unstructured) *unstructured.Unstructured {
	out := manifest.DeepCopy()
	out.SetResourceVersion(live.GetResourceVersion())
	out.SetUID(live.GetUID())
	keepStatus(out, live)
	keepFinalizers(out, live)
	keepOwners(out, live)

	gvk := out.GroupVersionKind()
	for _, c := range carried {
		if c.group == gvk.Group && c.kind == gvk.Kind {
			carryOver(out, live, c.path...)
		}
	}
	switch {
	case gvk.Group == "batch" && gvk.Kind == "Job":
		keepTemplateLabels(out, live)
	case gvk.Group == "" && gvk.Kind == "Service":
		keepClusterIP(out, live)
	case gvk.Group == "rbac.authorization.k8s.io" && gvk.Kind == "ClusterRole" && out.Object["aggregationRule"] != nil:
		// A controller fills in the rules of an aggregated role. In any other role no rules are no permissions.
		carryOver(out, live, "rules")
	}
	return out
}

func carryOver(out, live *unstructured.Unstructured, path ...string) {
	if _, found, _ := unstructured.NestedFieldNoCopy(out.Object, path...); found {
		return
	}
	value, found, _ := unstructured.NestedFieldCopy(live.Object, path...)
	if !found {
		return
	}
	// A manifest with something else than a map on the way cannot take the value; the API server will say what is wrong.
	_ = unstructured.SetNestedField(out.Object, value, path...)
}

func keepStatus(out, live *unstructured.Unstructured) {
	unstructured.RemoveNestedField(out.Object, "status")
	carryOver(out, live, "status")
}

func keepFinalizers(out, live *unstructured.Unstructured) {
	finalizers := out.GetFinalizers()
	for _, f := range live.GetFinalizers() {
		if !slices.Contains(finalizers, f) {
			finalizers = append(finalizers, f)
		}
	}
	if len(finalizers) > 0 {
		out.SetFinalizers(finalizers)
	}
}

func keepOwners(out, live *unstructured.Unstructured) {
	owners := out.GetOwnerReferences()
	known := len(owners)
	for _, o := range live.GetOwnerReferences() {
		mentioned := false
		for _, wanted := range owners[:known] {
			mentioned = mentioned || wanted.UID == o.UID
		}
		if !mentioned {
			owners = append(owners, o)
		}
	}
	if len(owners) > 0 {
		out.SetOwnerReferences(owners)
	}
}

// keepTemplateLabels keeps the labels by which a Job finds its pods.
func keepTemplateLabels(out, live *unstructured.Unstructured) {
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
