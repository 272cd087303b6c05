package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
)

// A hash is the record of a written object in the inventory, see the package comment: the digest of the manifest, the
// digest of the manifest's fields in the object and, after patchAfterDeployment, the digest of the patch's fields in
// it; with slashes in between.

// hashOf returns the hash of an object right after its write.
func hashOf(i *Item, live *unstructured.Unstructured) string {
	template := i.compared()
	return i.manifestDigest + "/" + digest(withoutForeign(template, project(template, live.Object)))
}

// HashOfManifest is the hash of an object written by another client and gone before it was read.
func (i *Item) HashOfManifest() string { return hashOf(i, i.Desired) }

// hashOfPatched returns the hash of an object right after its patch.
func hashOfPatched(i *Item, live *unstructured.Unstructured) string {
	return hashOf(i, live) + "/" + digest(project(i.PatchAfterDeployment, live.Object))
}

// isMeant reports whether a patch has met the intended object: the compared fields outside the patch are as they
// were. If not, another client has changed them right before, and the object gets no hash, so that the next job
// compares it. The fields of the patch may be spelt differently in the answer. Requests with all named fields, or
// with the resourceVersion, need no such check.
func isMeant(i *Item, patch map[string]any, before, written *unstructured.Unstructured) bool {
	return sameBeside(patch, i.named(before), i.named(written))
}

// sameBeside reports whether two values differ at most in the fields of a JSON merge patch.
func sameBeside(patch map[string]any, before, after any) bool {
	a, _ := before.(map[string]any)
	b, _ := after.(map[string]any)
	for _, fields := range []map[string]any{a, b} {
		for key := range fields {
			change, patched := patch[key]
			inner, isMap := change.(map[string]any)
			if isMap && !sameBeside(inner, a[key], b[key]) || !patched && !reflect.DeepEqual(a[key], b[key]) {
				return false
			}
		}
	}
	return true
}

func madeFrom(hash, manifestDigest string) bool {
	made, _, ok := strings.Cut(hash, "/")
	return ok && made == manifestDigest
}

// fits reports whether a hash was made with the item's manifest, and the object still looks as it did then.
func fits(applied string, i *Item, live *unstructured.Unstructured) bool {
	now := hashOf(i, live)
	return applied == now || strings.HasPrefix(applied, now+"/")
}

// wasPatched reports whether a hash was made after patchAfterDeployment.
func wasPatched(applied string) bool { return strings.Count(applied, "/") == 2 }

// digestOfManifest covers all that a write depends on, apart from the object as it is. The values of
// annotateBeforeCreate do not matter to an existing object; a removed key does, because its annotation goes with the
// next write.
func (i *Item) digestOfManifest() string {
	return digest([]any{
		without(i.Desired.Object, i.Ignored), i.Strategy, slices.Sorted(maps.Keys(i.AnnotateBeforeCreate)), i.PatchAfterDeployment,
	})
}

// compared returns the fields of the manifest to be compared with an object.
func (i *Item) compared() map[string]any { return without(namedIn(i.Desired), i.Ignored) }

// named returns the compared fields of the live object.
func (i *Item) named(live *unstructured.Unstructured) any { return project(i.compared(), live.Object) }

// without returns fields without the ignored ones; the same map if none are ignored.
func without(fields map[string]any, ignored []ignore.Pointer) map[string]any {
	if len(ignored) == 0 {
		return fields
	}
	out := runtime.DeepCopyJSON(fields)
	for _, p := range ignored {
		ignore.Remove(out, p)
	}
	return out
}

// namedIn returns the comparable fields of a manifest. The status belongs to others, and so does the metadata apart
// from labels, annotations, finalizers and owners.
func namedIn(manifest *unstructured.Unstructured) map[string]any {
	fields := map[string]any{}
	for key, value := range manifest.Object {
		if key == "status" || key == "metadata" {
			continue
		}
		fields[key] = value
	}
	metadata, _ := manifest.Object["metadata"].(map[string]any)
	wanted := map[string]any{}
	for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		if value, ok := metadata[key]; ok {
			wanted[key] = value
		}
	}
	fields["metadata"] = wanted
	return fields
}

// project returns the parts of value with a counterpart in template. A list keeps every element in its place, so that
// one more or one less makes a difference, but an element beyond the template's is not looked into.
func project(template, value any) any {
	switch t := template.(type) {
	case map[string]any:
		v, ok := value.(map[string]any)
		if !ok {
			return value
		}
		out := map[string]any{}
		for key, inner := range t {
			field, ok := v[key]
			if !ok {
				continue
			}
			out[key] = project(inner, field)
		}
		return out
	case []any:
		v, ok := value.([]any)
		if !ok {
			return value
		}
		out := make([]any, len(v))
		for i := range min(len(v), len(t)) {
			out[i] = project(t[i], v[i])
		}
		return out
	default:
		return value
	}
}

// withoutForeign returns the result of project without the maps empty in it: whether these exist depends on the
// fields of other clients.
func withoutForeign(template, projected any) any {
	t, isMap := template.(map[string]any)
	p, wasMap := projected.(map[string]any)
	if !isMap || !wasMap {
		return projected
	}
	out := map[string]any{}
	for key, value := range p {
		value = withoutForeign(t[key], value)
		if isEmpty(value) && !isEmpty(t[key]) {
			continue
		}
		out[key] = value
	}
	return out
}

func isEmpty(value any) bool {
	m, isMap := value.(map[string]any)
	return isMap && len(m) == 0
}

// digest returns a short text, the same for equal JSON and another for different JSON. It stands in the status of a
// deploy item with the manifest itself in the spec, so it reveals nothing.
func digest(content any) string {
	document, err := json.Marshal(content)
	if err != nil {
		// Decoded JSON can always be marshalled. If it could not, an empty digest would only cause an unneeded write.
		return ""
	}
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:16])
}
