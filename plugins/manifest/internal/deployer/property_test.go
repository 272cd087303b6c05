package deployer_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	kitobject "github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestAnySequence takes two deploy items, which want some of the same objects, through random sequences of edits, jobs
// with and without faults, deletions and changes by others. After each job the target and the provider status are those
// of a model.
//
// The model knows who has an object and one value of it. What each policy and strategy makes of fields is in the tests
// of package apply.
// Rule (manifest.md#deletion): A deletion without a status is tried again while an object cannot be read.
func TestAnySequence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(rt *rapid.T) {
		g := newGame(rt, w)
		for range 4 {
			g.edit(rt)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"edit":                g.edit,
			"reconcile":           g.reconcile,
			"reconcile once more": g.reconcile,
			"somebody changes":    g.somebodyChanges,
			"somebody deletes":    g.somebodyDeletes,
			"somebody creates":    g.somebodyCreates,
			"delete":              g.deleteItem,
		})
		for _, p := range g.players {
			g.deleteAs(p, plugintest.Fault{}, 0)
		}
	})
}

// slot is a place for an object. What is frozen cannot change and has to be recreated.
type slot struct {
	kind, name string
	resource   plugintest.Resource
	frozen     bool
}

// slots returns the places in a namespace. A cluster-scoped object has the namespace's name, so that no two games share
// it.
func slots(namespace string) []slot {
	return []slot{
		{kind: "ConfigMap", name: "a", resource: configMaps}, {kind: "ConfigMap", name: "b", resource: configMaps},
		{kind: "Secret", name: "frozen", resource: secrets, frozen: true},
		{kind: "ClusterRole", name: namespace, resource: roles},
	}
}

// modelObject is an object on the target.
type modelObject struct {
	// id is another one for each object that was created; owner is the name of an item, or empty for somebody.
	id           int
	owner, value string
}

// modelEntry is an entry of the manifests; modelManaged is what an item knows of an object.
type (
	modelEntry   struct{ policy, value string }
	modelManaged struct {
		policy string
		id     int
	}
)

// player is a deploy item, for the deployer and for the model.
type player struct {
	item     *landscaper.DeployItem
	name     string
	strategy string
	entries  map[slot]modelEntry
	managed  map[slot]modelManaged
}

// game is one sequence, in a namespace of its own.
type game struct {
	*world

	t       *rapid.T
	slots   []slot
	players []*player
	objects map[slot]modelObject
	lastID  int
	// uids are those of the objects of the model.
	uids map[int]types.UID
}

func newGame(t *rapid.T, w *world) *game {
	inner := *w.Host
	inner.World = w.At(w.Create(namespaces, object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": object{"generateName": "game-"},
	}).GetName())
	g := &game{
		world: &world{&inner}, t: t, slots: slots(inner.Namespace),
		objects: map[slot]modelObject{}, uids: map[int]types.UID{},
	}
	g.DeleteAfter(roles, g.Namespace)
	for _, name := range []string{"one", "two"} {
		g.players = append(g.players, &player{
			item: g.Item(v1alpha2.Type, name, nil), name: name, strategy: "update",
			entries: map[slot]modelEntry{}, managed: map[slot]modelManaged{},
		})
	}
	return g
}

// What the actions do.

func (g *game) edit(t *rapid.T) {
	p, at := rapid.SampledFrom(g.players).Draw(t, "item"), rapid.SampledFrom(g.slots).Draw(t, "object")
	p.strategy = rapid.SampledFrom([]string{"update", "patch", "mergeOverwrite", "apply"}).Draw(t, "strategy")
	if _, ok := p.entries[at]; ok && rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
		delete(p.entries, at)
		return
	}
	policies := []string{"manage", "manage", "fallback", "keep"}
	if at.frozen { // what is kept is not recreated, and the job fails
		policies = policies[:3]
	}
	p.entries[at] = modelEntry{
		policy: rapid.SampledFrom(policies).Draw(t, "policy"),
		value:  rapid.SampledFrom([]string{"1", "2"}).Draw(t, "value"),
	}
}

func (g *game) reconcile(t *rapid.T) {
	p := rapid.SampledFrom(g.players).Draw(t, "item")
	fault, n := g.drawFault(t)
	g.job(p)
	g.run(p, plugintest.Reconcile, fault, n)
	g.check(p)

	g.Requests.Take()
	result := g.run(p, plugintest.Reconcile, fault, 0)
	if writes := g.Requests.Writes(); len(writes) > 0 {
		t.Fatalf("item %s: a second job without a change wrote %v\n%s", p.name, writes, p.item.Spec.Config.Raw)
	}
	for _, c := range result.Conditions {
		if c.Status == landscaper.ConditionTrue {
			t.Fatalf("item %s: a second job without a change reports %v", p.name, c)
		}
	}
	g.check(p)
}

func (g *game) deleteItem(t *rapid.T) {
	p := rapid.SampledFrom(g.players).Draw(t, "item")
	fault, n := g.drawFault(t)
	g.deleteAs(p, fault, n)
	p.item = g.Item(v1alpha2.Type, p.name, nil)
}

func (g *game) deleteAs(p *player, fault plugintest.Fault, n int) {
	g.dropAll(p)
	g.run(p, plugintest.Delete, fault, n)
	g.check(p)
}

func (g *game) somebodyChanges(t *rapid.T) {
	at := rapid.SampledFrom(g.slots).Draw(t, "object")
	o, ok := g.objects[at]
	if !ok || at.frozen {
		t.Skip("there is nothing to change")
	}
	o.value = "changed"
	g.Patch(at.resource, at.name, string(g.Marshal(g.part(at, o.value))))
	g.objects[at] = o
}

func (g *game) somebodyDeletes(t *rapid.T) {
	at := rapid.SampledFrom(g.slots).Draw(t, "object")
	if _, ok := g.objects[at]; !ok {
		t.Skip("there is no object")
	}
	g.Delete(at.resource, at.name)
	delete(g.objects, at)
}

func (g *game) somebodyCreates(t *rapid.T) {
	at := rapid.SampledFrom(g.slots).Draw(t, "object")
	if _, ok := g.objects[at]; ok {
		t.Skip("there is an object")
	}
	g.Create(at.resource, g.manifest(at, "theirs"))
	g.create(at, modelObject{value: "theirs"})
}

// drawFault returns what goes wrong in a job, and at which step; 0 for never.
func (g *game) drawFault(t *rapid.T) (plugintest.Fault, int) {
	fault := rapid.SampledFrom([]plugintest.Fault{
		plugintest.Failed, plugintest.AnswerLost, plugintest.Refused, plugintest.Killed, plugintest.ReadFailed,
	}).Draw(t, "fault")
	return fault, max(0, rapid.IntRange(-6, 6).Draw(t, "at step"))
}

// The model.

// job carries out a job of an item.
func (g *game) job(p *player) {
	orphans := map[slot]modelManaged{}
	for at, known := range p.managed {
		if _, wanted := p.entries[at]; !wanted {
			orphans[at] = known
		}
	}
	for at, e := range p.entries {
		live, exists := g.objects[at]
		if exists && e.policy == "fallback" && live.owner != p.name {
			delete(p.managed, at)
			continue
		}
		if !exists || at.frozen && live.value != e.value {
			g.create(at, modelObject{})
		}
		live = modelObject{id: g.objects[at].id, owner: p.name, value: e.value}
		g.objects[at], p.managed[at] = live, modelManaged{policy: e.policy, id: live.id}
	}
	g.drop(p, orphans)
}

func (g *game) create(at slot, o modelObject) {
	g.lastID++
	o.id = g.lastID
	g.objects[at] = o
}

// drop ends the management of objects: what is not to be kept, and nobody else has taken over, is deleted.
func (g *game) drop(p *player, managed map[slot]modelManaged) {
	for at, known := range managed {
		delete(p.managed, at)
		if known.policy != "keep" && g.objects[at].owner == p.name {
			delete(g.objects, at)
		}
	}
}

// dropAll ends the management of all objects of an item. One that was never deployed, or has lost its status, manages
// those of its manifests that bear its label, such as one that an earlier item of its name has kept.
func (g *game) dropAll(p *player) {
	managed := maps.Clone(p.managed)
	if p.item.Status.ProviderStatus == nil {
		for at, e := range p.entries {
			if g.objects[at].owner == p.name {
				managed[at] = modelManaged{policy: e.policy}
			}
		}
	}
	g.drop(p, managed)
}

// The deployer.

// run carries a job out to its success, as a host does.
func (g *game) run(p *player, do plugintest.Operation, fault plugintest.Fault, n int) *sdktest.Result {
	plugintest.NewJob(p.item)
	entries := []object{}
	for _, at := range g.slots {
		if e, ok := p.entries[at]; ok {
			entries = append(entries, entry(g.manifest(at, e.value), object{
				"policy": e.policy, "recreate": at.frozen, "force": p.strategy == "apply",
			}))
		}
	}
	g.SetConfig(p.item, with(configOf(entries...), "updateStrategy", p.strategy))
	if n > 0 {
		g.Disturb(do, p.item, n, fault)
	}
	result := g.UntilDone(do, p.item)
	plugintest.Keep(p.item, result)
	if result.Succeeded == nil {
		g.t.Fatalf("item %s: expected success, but found: %s\n%s", p.name, result, p.item.Spec.Config.Raw)
	}
	return result
}

func (g *game) manifest(at slot, value string) object {
	o := g.part(at, value)
	o["apiVersion"], o["kind"] = at.resource.GroupVersion().String(), at.kind
	g.set(o, at.name, "metadata", "name")
	if at.resource != roles {
		g.set(o, g.Namespace, "metadata", "namespace")
	}
	if at.frozen {
		o["immutable"] = true
	}
	return o
}

// part returns the value alone.
func (g *game) part(at slot, value string) object {
	o := object{}
	g.set(o, base64.StdEncoding.EncodeToString([]byte(value)), at.valuePath()...)
	return o
}

// valuePath is where an object has its value, which is base64 for the sake of Secrets.
func (s slot) valuePath() []string {
	if s.resource == roles {
		return []string{"metadata", "annotations", "value"}
	}
	return []string{"data", "value"}
}

func (g *game) set(o object, value string, path ...string) {
	if err := unstructured.SetNestedField(o, value, path...); err != nil {
		g.t.Fatal(err)
	}
}

// check compares the target and the provider status with the model.
func (g *game) check(p *player) {
	want, got := map[string]modelObject{}, map[string]modelObject{}
	for at, o := range g.objects {
		want[at.kind+" "+at.name] = o
	}
	for _, at := range g.slots {
		// One by one: lists have to wait until the cache of the API server is up to date.
		if live := g.Get(at.resource, at.name); live != nil {
			got[at.kind+" "+at.name] = g.objectOf(at, live)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(modelObject{})); diff != "" {
		g.t.Fatalf("after a job of item %s: -want +got:\n%s\n%s", p.name, diff, p.item.Spec.Config.Raw)
	}
	var managed, listed []string
	for at, known := range p.managed {
		managed = append(managed, fmt.Sprintln(at.kind, at.name, known.policy, g.uids[known.id]))
	}
	var status v1alpha2.ProviderStatus
	if p.item.Status.ProviderStatus != nil {
		mustParse(g, p.item.Status.ProviderStatus.Raw, &status)
	}
	for _, m := range status.ManagedResources {
		listed = append(listed, fmt.Sprintln(m.Resource.Kind, m.Resource.Name, m.Policy, m.Resource.UID))
	}
	slices.Sort(managed)
	slices.Sort(listed)
	if diff := cmp.Diff(managed, listed); diff != "" {
		g.t.Fatalf("item %s manages: -want +got:\n%s\n%s", p.name, diff, p.item.Spec.Config.Raw)
	}
}

// objectOf returns an object as the model has it. A uid that is not that of the model's object has the id 0.
func (g *game) objectOf(at slot, live *unstructured.Unstructured) modelObject {
	expected := g.objects[at]
	if _, known := g.uids[expected.id]; !known && !slices.Contains(slices.Collect(maps.Values(g.uids)), live.GetUID()) {
		g.uids[expected.id] = live.GetUID()
	}
	o := modelObject{owner: strings.TrimPrefix(live.GetLabels()[owner.Label], g.Namespace+".")}
	if g.uids[expected.id] == live.GetUID() {
		o.id = expected.id
	}
	value, err := base64.StdEncoding.DecodeString(kitobject.Text(live.Object, at.valuePath()...))
	if err != nil {
		g.t.Fatal(err)
	}
	o.value = string(value)
	return o
}
