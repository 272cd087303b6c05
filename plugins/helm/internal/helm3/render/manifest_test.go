package render

import (
	"encoding/json"
	"testing"
)

// FuzzManifest has manifests read that hostile charts may render, and written again.
func FuzzManifest(f *testing.F) {
	f.Add("---\n# Source: a/templates/b.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	f.Add("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: a}}, 5]")
	f.Add("a: &a [*a]")
	f.Add("---\n---\n--- # x\nkind: 5")
	f.Fuzz(func(t *testing.T, manifest string) {
		objects, err := Objects("", manifest)
		if err != nil {
			return
		}
		for i, o := range objects {
			content, err := Decode(o.JSON)
			if err != nil {
				t.Fatalf("an object is no JSON: %v", err)
			}
			content["changed"] = true
			if objects[i].JSON, err = json.Marshal(content); err != nil {
				t.Fatal(err)
			}
		}
		written, err := Write(objects)
		if err != nil {
			t.Fatalf("write %s: %v", manifest, err)
		}
		again, err := Objects("", written.String())
		if err != nil {
			t.Fatalf("read %s: %v", written, err)
		}
		if !Same(again, objects) {
			t.Fatalf("expected the same objects again from\n%s", written)
		}
	})
}
