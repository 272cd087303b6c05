package desired

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// replacement returns the object to write over live to bring it to the manifest. It has live's resourceVersion, so
// that a change in between is noticed, and keeps live's status, the finalizers and owners added by others, and the
// fields required by the API server.
func replacement(manifest, live *unstructured.Unstructured) *unstructured.Unstructured {
	out := manifest.DeepCopy()
	out.SetResourceVersion(live.GetResourceVersion())
	out.SetUID(live.GetUID())
	keepStatus(out, live)
	keepFinalizers(out, live)
	keepOwners(out, live)

	if keep, ok := keepers[out.GroupVersionKind().GroupKind()]; ok {
		keep(out, live)
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
	// A manifest with something else than a map on the way cannot take the value; the API server reports it.
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
