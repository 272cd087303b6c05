package deployer_test

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// What others do to the objects, beside the deployer.

// drawObject returns the place of an object. Without one the action is another one.
func (g *game) drawObject(t *rapid.T) slot {
	if len(g.model.objects) == 0 {
		t.Skip("there is no object")
	}
	return rapid.SampledFrom(slotsOf(g.model.objects)).Draw(t, "object")
}

// somebodyChanges changes a field or removes it, be it one that a manifest names or not.
func (g *game) somebodyChanges(t *rapid.T) {
	at := g.drawObject(t)
	name := rapid.SampledFrom([]string{
		valuePrefix + "a", valuePrefix + "a", valuePrefix + "b", valuePrefix + "p", valuePrefix + "extra", fieldTeam, fieldMade,
	}).Draw(t, "field")
	g.patchAs(t, at, fields{name: rapid.SampledFrom([]string{null, "1", "2", "3", ""}).Draw(t, "value")})
}

// somebodyRelabels makes an object nobody's, an item's, or that of an item of Landscaper.
func (g *game) somebodyRelabels(t *rapid.T) {
	own := rapid.SampledFrom([]string{null, null, "elsewhere.other", g.Namespace + ".one"}).Draw(t, "owner")
	upstream := rapid.SampledFrom([]string{null, "one", "two", "other"}).Draw(t, "owner for Landscaper")
	g.patchAs(t, g.drawObject(t), fields{fieldOwn: own, fieldUpstream: upstream})
}

func (g *game) patchAs(t *rapid.T, at slot, change fields) {
	o := g.model.objects[at]
	after := modelEntry{patch: change}.patched(o.fields)
	if !mayBecome(o.fields, after) {
		t.Skip("the object is immutable")
	}
	document, err := json.Marshal(g.part(at, change))
	if err != nil {
		t.Fatal(err)
	}
	live, err := g.objectsOf(at.kind).Patch(g.Context(), g.nameOf(at), types.MergePatchType, document, metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatalf("patch %s: %v", at, err)
	}
	o.write(after, others)
	g.versions[at] = live.GetResourceVersion()
}

// somebodyCreates creates an object, which replaces one that is there.
func (g *game) somebodyCreates(t *rapid.T) {
	at := rapid.SampledFrom(slots).Draw(t, "object")
	f := drawFields(t, at)
	maps.Copy(f, rapid.SampledFrom([]fields{
		nil, nil, {fieldUpstream: "one"}, {fieldOwn: "elsewhere.other"}, {fieldOwn: g.Namespace + ".two", fieldUpstream: "two"},
	}).Draw(t, "labels"))
	if len(f) == 0 {
		// Of an object that is created without any field the API server does not know who writes what, see TestApplyToAnUntrackedObject.
		f[fieldTeam] = "1"
	}
	f[fieldRest] = ""
	if g.model.objects[at] != nil {
		g.destroyAs(t, at)
	}
	live, err := g.objectsOf(at.kind).Create(g.Context(), &unstructured.Unstructured{Object: g.manifest(at, f)}, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatalf("create %s: %v", at, err)
	}
	g.uids[g.model.create(at, f, others).id] = live.GetUID()
	g.versions[at] = live.GetResourceVersion()
}

func (g *game) somebodyDeletes(t *rapid.T) { g.destroyAs(t, g.drawObject(t)) }

func (g *game) destroyAs(t *rapid.T, at slot) {
	if err := g.objectsOf(at.kind).Delete(g.Context(), g.nameOf(at), metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete %s: %v", at, err)
	}
	delete(g.model.objects, at)
}
