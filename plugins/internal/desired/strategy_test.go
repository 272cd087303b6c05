package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestWanted: the strategy decides what an existing object is to be.
func TestWanted(t *testing.T) {
	t.Parallel()
	const (
		merge, overwrite = managedresource.UpdateStrategyMerge, managedresource.UpdateStrategyMergeOverwrite
		apply            = managedresource.UpdateStrategyApply
	)
	const manifest = `{both: manifest, more: manifest}`
	for name, c := range map[string]struct {
		reason   string
		strategy managedresource.UpdateStrategy
		ignored  []string
		owned    string
		want     string
	}{
		"update":         {"others' fields go", "", nil, "", manifest},
		"patch":          {"the object is the same as with update", managedresource.UpdateStrategyPatch, nil, "", manifest},
		"merge":          {"only missing fields are added", merge, nil, "", `{both: live, more: manifest, theirs: live}`},
		"mergeOverwrite": {"others' fields stay", overwrite, nil, "", `{both: manifest, more: manifest, theirs: live}`},
		"apply":          {"only fields to be ours are sent", apply, nil, "", manifest},
		"ignored": {
			"an ignored field is as it is", "", []string{"both", "theirs", "more"}, "", `{both: live, theirs: live}`,
		},
		"ignored, applied": {
			"an ignored field of others is not sent, and our own part of one is", apply,
			[]string{"both", "more", "theirs"}, `{"f:data":{"f:both":{}}}`, `{both: live}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Manifest{
				Manifest: object.Manifest{Object: plugintest.Object(`{apiVersion: v1, kind: ConfigMap,
					metadata: {name: a, namespace: ns, annotations: {created: manifest}}, data: ` + manifest + `,
					status: {pasted: true}}`)},
				Strategy: c.strategy, AnnotateBeforeCreate: map[string]string{"created": "once"},
			}
			for _, name := range c.ignored {
				m.Ignored = append(m.Ignored, ignore.Pointer{"data", name})
			}
			by := owner.Owner{Namespace: "ns", Name: "item", Installation: "here"}
			live := plugintest.Object(`{apiVersion: v1, kind: ConfigMap, data: {both: live, theirs: live},
				metadata: {name: a, namespace: ns, uid: "1", annotations: {created: before}}}`)
			if c.owned != "" {
				live.SetManagedFields([]metav1.ManagedFieldsEntry{{
					Manager: owner.FieldManager, FieldsV1: metav1.NewFieldsV1(c.owned),
				}})
			}
			out := Wanted(New(m, target.Mapping{Namespaced: true}, false, by), live)
			if diff := cmp.Diff(any(plugintest.Fields(c.want)), out.Object["data"]); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if out.GetUID() != "1" {
				t.Error("the write is not for this object alone")
			}
			annotations := map[string]string{"created": "before", owner.InstallationAnnotation: "here"}
			if diff := cmp.Diff(annotations, out.GetAnnotations()); diff != "" {
				t.Errorf("annotations: -want +got:\n%s", diff)
			}
			if out.GetLabels()[owner.Label] == "" || out.Object["status"] != nil {
				t.Errorf("expected the label and no status, but found %v", out.Object)
			}
		})
	}
}

// TestMarkIsNoReason: an object written before there were marks is not written for the mark alone, except by apply.
func TestMarkIsNoReason(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[managedresource.UpdateStrategy]string{
		managedresource.UpdateStrategyUpdate: "", managedresource.UpdateStrategyApply: "here",
	} {
		i := itemOf(thing("x"))
		i.Strategy, i.Owner.Installation = strategy, "here"
		live := i.Desired.DeepCopy()
		if got := owner.Mark(Wanted(i, live)); got != want {
			t.Errorf("%s: expected the mark %q, but found %q", strategy, want, got)
		}
		live.Object["spec"] = "y"
		if got := owner.Mark(Wanted(i, live)); got != "here" {
			t.Errorf("%s: expected the mark with another change, but found %q", strategy, got)
		}
	}
}

// TestInitial: an object begins with the annotations for its creation and the mark.
func TestInitial(t *testing.T) {
	t.Parallel()
	i := itemOf(thing("x"))
	i.Desired.Object["status"] = "pasted"
	i.AnnotateBeforeCreate, i.Owner.Installation = map[string]string{"created": "once"}, "here"
	want := map[string]string{"created": "once", owner.InstallationAnnotation: "here"}
	out := Initial(i)
	if diff := cmp.Diff(want, out.GetAnnotations()); diff != "" || out.Object["status"] == nil {
		t.Errorf("-want +got:\n%s\nin %v", diff, out.Object)
	}
	i.Strategy = managedresource.UpdateStrategyApply
	if out := Initial(i); out.Object["status"] != nil {
		t.Errorf("expected no status with apply, but found %v", out.Object)
	}
	if len(i.Desired.GetAnnotations()) > 0 {
		t.Error("the object itself was changed")
	}
}

// TestDriftOfPatched: what patchAfterDeployment changes again is no drift, and what it left empty neither.
func TestDriftOfPatched(t *testing.T) {
	t.Parallel()
	i := itemOf(thing(fields{"a": "manifest", "b": "manifest"}))
	i.PatchAfterDeployment = fields{"spec": fields{"a": "patch"}}
	before := thing(fields{"a": "patch", "b": "manifest"})
	entry := managedresource.ManagedResourceStatus{Applied: i.HashPatched(before)}
	written := thing(fields{"a": "manifest", "b": "manifest"})
	if d := Repaired(i, entry, before, written); d != nil {
		t.Errorf("expected no drift in a field of the patch, but found %v", d)
	}
	meddled := thing(fields{"a": "patch", "b": "other"})
	if d := Repaired(i, entry, meddled, written); d == nil || d.String() != "spec.b" {
		t.Errorf("expected the drift of the other field, but found %v", d)
	}
	if !i.Fits(entry.Applied, before) || i.Fits(entry.Applied, meddled) ||
		!WasPatched(entry.Applied) || WasPatched(i.Hash(before)) {
		t.Error("the hash does not show the state")
	}
	if !i.IsMeant(i.PatchAfterDeployment, written, before) || i.IsMeant(i.PatchAfterDeployment, written, meddled) {
		t.Error("a change of others beside the patch is not found")
	}
}

// TestMissing: only an applied object that has not completed can be missed.
// Rule (manifest.md#drift): A missing object is drift.
func TestMissing(t *testing.T) {
	t.Parallel()
	i := itemOf(thing("x"))
	applied := managedresource.ManagedResourceStatus{Applied: i.Hash(i.Desired)}
	applied.Resource.UID = "1"
	never, done, changed := applied, applied, applied
	never.Resource.UID, done.DoneIn, changed.Applied = "", "job", "other/hash"
	if d := Missing(i, applied); d == nil || !d.Missing || d.Key != i.Key {
		t.Errorf("expected the object to be missing, but found %v", d)
	}
	for name, e := range map[string]managedresource.ManagedResourceStatus{
		"never": never, "done": done, "changed": changed,
	} {
		if d := Missing(i, e); d != nil {
			t.Errorf("%s: expected no drift, but found %v", name, d)
		}
	}
}
