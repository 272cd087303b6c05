package apply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk"
)

// TestDefaultNamespace: it is for what has a namespace and names none.
// Rule (manifest.md#manifests): An object without a namespace goes to `default`.
func TestDefaultNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, gadget := w.gadgets()
	nowhere := w.in(t)
	nowhere.Namespace = ""
	var manifests []desired.Manifest
	for _, o := range []fields{
		definition, edit(gadget, "metadata: {namespace: null}"), nowhere.ConfigMap("inside", nil),
		edit(w.ConfigMap("elsewhere", nil), "metadata: {namespace: kube-system}"),
		nowhere.object("rbac.authorization.k8s.io/v1", "ClusterRole", "r", ""),
		nowhere.object("apps/v0", "Deployment", "old", ""), // another version of the group tells that it has namespaces
	} {
		m := manifest(o)
		m.DefaultNamespace = w.Namespace
		manifests = append(manifests, m)
	}
	got := map[string]bool{}
	for key := range w.mustPlan(manifests...).Keys() {
		got[key.Kind+" "+key.Namespace] = true
	}
	want := map[string]bool{
		"CustomResourceDefinition ": true, "Gadget " + w.Namespace: true, "ConfigMap kube-system": true,
		"ConfigMap " + w.Namespace: true, "ClusterRole ": true, "Deployment " + w.Namespace: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDiffWithoutOwner: what somebody else has written is no change as long as it is as its manifest says.
func TestDiffWithoutOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// As the other deploy item has left it.
	o := edit(w.ConfigMap("a", fields{"key": "value"}), `metadata: {labels: {`+owner.Label+`: another.item}}`)
	w.Create(configMaps, o)
	w.by = owner.Owner{}
	w.mustForeseeNothing(manifest(o))
	if c := w.mustForesee(sdk.ActionUpdate, "", manifest(edit(o, "data: {more: value}"))); c.Note != "" {
		t.Errorf("expected that nobody takes the object over, but found %q", c.Note)
	}
}
