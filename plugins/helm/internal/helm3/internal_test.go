package helm3

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
		objects, err := objectsOf("", manifest)
		if err != nil {
			return
		}
		for i, o := range objects {
			content, err := decode(o.JSON)
			if err != nil {
				t.Fatalf("an object is no JSON: %v", err)
			}
			content["changed"] = true
			if objects[i].JSON, err = json.Marshal(content); err != nil {
				t.Fatal(err)
			}
		}
		written, err := writeManifest(objects)
		if err != nil {
			t.Fatalf("write %s: %v", manifest, err)
		}
		again, err := objectsOf("", written.String())
		if err != nil {
			t.Fatalf("read %s: %v", written, err)
		}
		if !sameObjects(again, objects) {
			t.Fatalf("expected the same objects again from\n%s", written)
		}
	})
}

// TestStates: an error has only those lines of Helm's log that say what it has waited for.
func TestStates(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"Deployment is not ready: ns/shop. 0 out of 1 expected pods are ready": true,
		"Service does not have load balancer ingress IP address: ns/shop":      true,
		"PersistentVolumeClaim is not bound: ns/data":                          true,
		"Job is not completed: ns/init":                                        true,
		"Job is failed: ns/init":                                               true,
		"init: Jobs active: 1, jobs failed: 2, jobs succeeded: 0":              true,
		"Pod init pending":                                                           true,
		`Patch Job "init" in namespace ns`:                                           false,
		"Add/Modify event for init: MODIFIED":                                        false,
		"Watching for changes to Job init with timeout of 5m0s":                      false,
		"StatefulSet is ready: ns/db. 1 out of 1 expected pods are ready":            false,
		`error updating the resource "init": Job.batch "init" is invalid: immutable`: false,
	} {
		if got := aState.MatchString(line); got != want {
			t.Errorf("%q: expected %t, but found %t", line, want, got)
		}
	}
}
