package apply_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
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
	delete(gadget["metadata"].(fields), "namespace")
	elsewhere := w.ConfigMap("elsewhere", nil)
	elsewhere["metadata"].(fields)["namespace"] = "kube-system"
	inside := w.ConfigMap("inside", nil)
	delete(inside["metadata"].(fields), "namespace")
	role := fields{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": fields{"name": "r"}}
	// Another version of the group tells that the kind has namespaces.
	unserved := fields{"apiVersion": "apps/v0", "kind": "Deployment", "metadata": fields{"name": "old"}}

	var manifests []desired.Manifest
	for _, o := range []fields{definition, gadget, elsewhere, inside, role, unserved} {
		m := manifest(copyOf(o))
		m.DefaultNamespace = w.Namespace
		manifests = append(manifests, m)
	}
	plan, err := apply.NewPlan(w.Context(), w.client, manifests, owner.Owner{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for key := range plan.Keys() {
		got[key.Kind+" "+key.Namespace] = true
	}
	want := map[string]bool{
		"CustomResourceDefinition ": true, "Gadget " + w.Namespace: true, "ConfigMap kube-system": true, "ConfigMap " + w.Namespace: true,
		"ClusterRole ": true, "Deployment " + w.Namespace: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDiffWithoutOwner: what somebody else has written is no change as long as it is as its manifest says.
func TestDiffWithoutOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.ConfigMap("a", fields{"key": "value"})
	// As the other deploy item has left it.
	labelled := &unstructured.Unstructured{Object: copyOf(o)}
	labelled.SetLabels(owner.Owner{Namespace: "another", Name: "item"}.Labels())
	w.Create(configMaps, labelled.Object)
	diff := func() []sdk.Change {
		m := manifest(labelled.Object)
		plan, err := apply.NewPlan(t.Context(), w.client, []desired.Manifest{m}, owner.Owner{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		changes, _, err := apply.Diff(t.Context(), w.client, plan, nothingRecorded)
		if err != nil {
			t.Fatal(err)
		}
		return changes
	}
	if changes := diff(); len(changes) > 0 {
		t.Errorf("expected no change, but found %+v", changes)
	}
	labelled.Object["data"].(fields)["more"] = "value"
	if changes := diff(); len(changes) != 1 || changes[0].Action != sdk.ActionUpdate || changes[0].Note != "" {
		t.Errorf("expected that nobody takes the object over, but found %+v", changes)
	}
}
