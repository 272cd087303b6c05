package deployer_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// TestAnySequence takes two deploy items through random sequences of edits, jobs, faults, deletions and changes by others. After each job
// the target, the provider status and the condition are those of a model.
func TestAnySequence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(crds, w.crd(kindRose))
	w.waitUntilServed()
	rapid.Check(t, func(rt *rapid.T) {
		g := newGame(rt, w)
		for range 6 {
			g.editEntry(rt)
		}
		g.editSettings(rt)
		g.editSettings(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"edit an entry":       g.editEntry,
			"edit the settings":   g.editSettings,
			"reconcile":           g.reconcile,
			"reconcile once more": g.reconcile,
			"reconcile again":     g.reconcile,
			"somebody changes":    g.somebodyChanges,
			"somebody relabels":   g.somebodyRelabels,
			"somebody creates":    g.somebodyCreates,
			"somebody deletes":    g.somebodyDeletes,
			"delete":              g.deleteItem,
		})
		for i := range g.players {
			g.deleteAs(&g.players[i])
		}
	})
}

// game is one sequence.
type game struct {
	playground

	t       *rapid.T
	model   *modelCluster
	players [2]player
	// strikeAt is at which step a fault strikes in the next job; 0 for never.
	strikeAt int
	fault    plugintest.Fault
	// uids are those of the objects of the model, and versions the resourceVersions that they had after the last job or change by others.
	uids     map[int]types.UID
	versions map[slot]string
}

// player is a deploy item, for the deployer and for the model.
type player struct {
	item  *landscaper.DeployItem
	model *modelItem
}

func newGame(t *rapid.T, w *world) *game {
	g := &game{
		playground: w.newPlayground(), t: t,
		model: &modelCluster{objects: map[slot]*modelObject{}}, uids: map[int]types.UID{}, versions: map[slot]string{},
	}
	for i, name := range []string{"one", "two"} {
		g.players[i] = player{model: &modelItem{
			namespace: g.Namespace, name: name, strategy: "update", entries: map[slot]modelEntry{}, ledger: map[slot]modelManaged{},
		}}
		g.renew(&g.players[i])
	}
	return g
}

// renew makes the deploy item anew.
func (g *game) renew(p *player) {
	p.item = g.Item(v1alpha2.Type, p.model.name, nil)
}

func (w *world) waitUntilServed() {
	w.Helper()
	w.Eventually("the custom resource to be served", func() bool {
		_, err := w.Objects(w.roses()).List(w.Context(), metav1.ListOptions{})
		return err == nil
	})
}

// The edits.

func (g *game) player(t *rapid.T) *player { return &g.players[rapid.IntRange(0, 1).Draw(t, "item")] }

func (g *game) editEntry(t *rapid.T) {
	p, at := g.player(t), rapid.SampledFrom(slots).Draw(t, "object")
	if _, ok := p.model.entries[at]; ok && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
		delete(p.model.entries, at)
		return
	}
	p.model.entries[at] = drawEntry(t, at)
}

func drawEntry(t *rapid.T, at slot) modelEntry {
	e := modelEntry{
		policy:   rapid.SampledFrom([]string{"manage", "manage", "manage", "fallback", "keep", "immutable", "ignore"}).Draw(t, "policy"),
		fields:   drawFields(t, at),
		recreate: rapid.Bool().Draw(t, "recreate"),
		force:    rapid.Bool().Draw(t, "force"),
		made:     rapid.SampledFrom([]string{"", "", "1", "2"}).Draw(t, "annotateBeforeCreate"),
	}
	e.patch = rapid.SampledFrom([]fields{
		nil, nil, nil, {valuePrefix + "p": "9"}, {valuePrefix + "a": "9"}, {valuePrefix + "b": null, fieldTeam: "9"},
	}).Draw(t, "patchAfterDeployment")
	return e
}

// drawFields returns those that a manifest, or somebody, may give to an object.
func drawFields(t *rapid.T, at slot) fields {
	f := fields{}
	for _, name := range []string{valuePrefix + "a", valuePrefix + "b", fieldTeam} {
		if value := rapid.SampledFrom([]string{null, "1", "2", ""}).Draw(t, name); value != null {
			f[name] = value
		}
	}
	if at.kind == kindConfigMap && rapid.IntRange(0, 4).Draw(t, "immutable") == 0 {
		f[fieldImmutable] = "true"
	}
	return f
}

func (g *game) editSettings(t *rapid.T) {
	m := g.player(t).model
	m.strategy = rapid.SampledFrom([]string{"update", "patch", "merge", "mergeOverwrite", "apply", "apply", "apply"}).Draw(t, "strategy")
	groups := rapid.SampledFrom([]string{groupsDefault, groupsDefault, groupsEmpty, groupsNamespaced, groupsConfigMaps, groupsAll})
	m.groups, m.groupsDuringUpdate = groups.Draw(t, "deletionGroups"), groups.Draw(t, "deletionGroupsDuringUpdate")
}

// config returns the provider configuration of an item.
func (g *game) config(m *modelItem) object {
	var entries []object
	for _, at := range slotsOf(m.entries) {
		e := m.entries[at]
		settings := object{"policy": e.policy, "recreate": e.recreate, "force": e.force && m.strategy == "apply"}
		if e.made != "" {
			settings["annotateBeforeCreate"] = object{"example.org/made": e.made}
		}
		if e.patch != nil {
			settings["patchAfterDeployment"] = g.part(at, e.patch)
		}
		entries = append(entries, entry(g.manifest(at, e.fields), settings))
	}
	conf := with(configOf(entries...), "updateStrategy", m.strategy)
	conf = with(conf, "deletionGroups", g.deletionGroups(m.groups))
	return with(conf, "deletionGroupsDuringUpdate", g.deletionGroups(m.groupsDuringUpdate))
}

func (g *game) deletionGroups(name string) []any {
	predefined := func(t string) object { return object{"predefinedResourceGroup": object{"type": t}} }
	configMaps := func(all bool) object {
		return object{"customResourceGroup": object{"deleteAllResources": all, "resources": []any{
			object{"apiVersion": "v1", "kind": "configmaps", "namespaces": []any{g.Namespace}},
		}}}
	}
	switch name {
	case groupsEmpty:
		return []any{predefined("empty")}
	case groupsNamespaced:
		return []any{predefined("namespaced-resources")}
	case groupsConfigMaps:
		return []any{configMaps(false)}
	case groupsAll:
		return []any{configMaps(true), predefined("namespaced-resources")}
	default:
		return nil
	}
}

// The jobs.

func (g *game) reconcile(t *rapid.T) {
	p := g.player(t)
	before := g.snapshot()
	expected := g.model.job(p.model)
	// How far a job gets that fails anyway depends on how often it is begun.
	faulty := g.drawFault(t) && expected.succeeds
	if !faulty {
		g.strikeAt = 0
	}
	result := g.run(p, plugintest.Reconcile)
	if (result.Succeeded != nil) != expected.succeeds {
		t.Fatalf("item %s: expected success to be %t, but found: %s\n%s", p.model.name, expected.succeeds, result, p.item.Spec.Config.Raw)
	}
	if faulty {
		// What is written twice may look the same at the end.
		for at := range p.model.ledger {
			g.model.touched[at] = true
		}
	}
	g.check(p, before)
	g.checkDrift(p, result, expected, faulty)
	if faulty {
		g.learn(p)
		return
	}
	if expected.succeeds && rapid.Bool().Draw(t, "again") {
		g.reconcileAgain(p)
	}
}

// reconcileAgain runs a job without a change, which writes nothing.
func (g *game) reconcileAgain(p *player) {
	g.strikeAt = 0
	g.Requests.Take()
	before := g.snapshot()
	expected := g.model.job(p.model)
	result := g.run(p, plugintest.Reconcile)
	if result.Succeeded == nil || expected.drifted {
		g.t.Fatalf("item %s: a second job: %s; the model: %+v", p.model.name, result, expected)
	}
	if writes := g.Requests.Writes(); len(writes) > 0 {
		g.t.Fatalf("item %s: a second job without a change wrote %v\n%s", p.model.name, writes, p.item.Spec.Config.Raw)
	}
	g.check(p, before)
	g.checkDrift(p, result, expected, false)
}

func (g *game) deleteItem(t *rapid.T) {
	g.drawFault(t)
	g.deleteAs(g.player(t))
}

func (g *game) deleteAs(p *player) {
	before := g.snapshot()
	g.model.delete(p.model)
	if result := g.run(p, plugintest.Delete); result.Succeeded == nil {
		g.t.Fatalf("item %s: delete: %s\n%s", p.model.name, result, p.item.Spec.Config.Raw)
	}
	g.check(p, before)
	g.renew(p)
}

// drawFault tells whether something is to go wrong in the next job.
func (g *game) drawFault(t *rapid.T) bool {
	g.strikeAt = 0
	if rapid.IntRange(0, 3).Draw(t, "faulty") > 0 {
		return false
	}
	g.fault = rapid.SampledFrom([]plugintest.Fault{
		plugintest.Failed, plugintest.AnswerLost, plugintest.Refused, plugintest.Killed, plugintest.ReadFailed,
	}).Draw(t, "fault")
	g.strikeAt = rapid.IntRange(1, 8).Draw(t, "at step")
	return true
}
