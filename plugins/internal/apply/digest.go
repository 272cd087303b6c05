package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// memo returns what the ledger keeps about an object after it was written; see the package comment.
func memo(i *Item, live *unstructured.Unstructured) string {
	return i.manifestDigest + "/" + digest(named(i.Desired, live))
}

// madeFrom tells whether a memo was made with a manifest of the given digest.
func madeFrom(memo, manifestDigest string) bool {
	made, _, ok := strings.Cut(memo, "/")
	return ok && made == manifestDigest
}

// named returns those fields of the live object that the manifest names. The status belongs to others, and of the metadata
// apart from labels, annotations, finalizers and owners there is nothing to compare.
func named(manifest, live *unstructured.Unstructured) any {
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
	return project(fields, live.Object)
}

// project returns the parts of value that template has too. Of a list every element is kept in its place, so that one more or
// one less makes a difference, but an element beyond the template's is not looked into.
func project(template, value any) any {
	switch t := template.(type) {
	case map[string]any:
		v, ok := value.(map[string]any)
		if !ok {
			return value
		}
		out := map[string]any{}
		for key, inner := range t {
			if field, ok := v[key]; ok {
				out[key] = project(inner, field)
			}
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

// digest returns a short text that is the same for equal JSON and differs for different JSON. It stands in the status of a
// deploy item, whose spec shows the manifest itself, so it reveals nothing.
func digest(content any) string {
	document, err := json.Marshal(content)
	if err != nil {
		// Decoded JSON can always be marshalled. If it could not, an empty digest would only cause a write too many.
		return ""
	}
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:16])
}
