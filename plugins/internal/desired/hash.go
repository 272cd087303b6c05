package desired

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
)

// A hash is the record of a written object in the inventory, see the package comment: the digest of the manifest, the
// digest of the manifest's fields in the object and, after patchAfterDeployment, the digest of the patch's fields in
// it; with slashes in between.

// Hash returns the hash of an object right after its write.
func (i *Object) Hash(live *unstructured.Unstructured) string {
	template := i.Compared()
	return i.manifestDigest + "/" + objects.Digest(withoutForeign(template, objects.Project(template, live.Object)))
}

// HashOfManifest is the hash of an object written by another client and gone before it was read.
func (i *Object) HashOfManifest() string { return i.Hash(i.Desired) }

// HashPatched returns the hash of an object right after its patch.
func (i *Object) HashPatched(live *unstructured.Unstructured) string {
	return i.Hash(live) + "/" + objects.Digest(objects.Project(i.PatchAfterDeployment, live.Object))
}

// IsMeant reports whether a patch has met the intended object: the compared fields outside the patch are as they
// were. If not, another client has changed them right before, and the object gets no hash, so that the next job
// compares it. The fields of the patch may be spelt differently in the answer. Requests with all named fields, or
// with the resourceVersion, need no such check.
func (i *Object) IsMeant(patch map[string]any, before, written *unstructured.Unstructured) bool {
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

// Fits reports whether a hash was made from the object's manifest, and the live object still looks as it did then.
func (i *Object) Fits(applied string, live *unstructured.Unstructured) bool {
	now := i.Hash(live)
	return applied == now || strings.HasPrefix(applied, now+"/")
}

// WasPatched reports whether a hash was made after patchAfterDeployment.
func WasPatched(applied string) bool { return strings.Count(applied, "/") == 2 }

// digestOfManifest covers all that a write depends on, apart from the object as it is. The values of
// annotateBeforeCreate do not matter to an existing object; a removed key does, because its annotation goes with the
// next write.
func (i *Object) digestOfManifest() string {
	return objects.Digest([]any{
		without(i.Desired.Object, i.Ignored), i.Strategy,
		slices.Sorted(maps.Keys(i.AnnotateBeforeCreate)), i.PatchAfterDeployment,
	})
}

// Compared returns the fields of the manifest to be compared with an object.
func (i *Object) Compared() map[string]any { return without(namedIn(i.Desired), i.Ignored) }

// named returns the compared fields of the live object.
func (i *Object) named(live *unstructured.Unstructured) any {
	return objects.Project(i.Compared(), live.Object)
}

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

// withoutForeign returns the result of objects.Project without the maps empty in it: whether these exist depends on the
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

// DocumentNamed returns the compared fields of an object as JSON for the user.
func (i *Object) DocumentNamed(o *unstructured.Unstructured) json.RawMessage {
	document, err := json.Marshal(i.named(o))
	if err != nil {
		return nil // decoded JSON can always be marshalled
	}
	return document
}
