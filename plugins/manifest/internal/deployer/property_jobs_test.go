package deployer_test

import (
	"fmt"
	"maps"
	"reflect"
)

// modelCluster is what the model knows of the target.
type modelCluster struct {
	objects map[slot]*modelObject
	lastID  int
	// touched are the objects that the last job has changed, be it only for a moment.
	touched map[slot]bool
}

// become changes an object.
func (c *modelCluster) become(at slot, next *modelObject) {
	if !reflect.DeepEqual(c.objects[at], next) {
		c.objects[at], c.touched[at] = next, true
	}
}

func (c *modelCluster) create(at slot, f fields, by manager) *modelObject {
	c.lastID++
	o := &modelObject{id: c.lastID, fields: maps.Clone(f), managers: map[string]manager{}}
	for name := range f {
		o.managers[name] = by
	}
	c.objects[at] = o
	return o
}

// modelResult is what a job is expected to come to.
type modelResult struct {
	succeeds, drifted bool
}

// manifestOf tells manifests apart, with the settings that say how an object is written.
func manifestOf(i *modelItem, e modelEntry) string {
	return fmt.Sprint(e.fields, i.strategy, e.made != "", e.patch)
}

// job carries out a job of an item.
func (c *modelCluster) job(i *modelItem) modelResult {
	c.touched = map[slot]bool{}
	before := maps.Clone(i.ledger)
	for at, e := range i.entries {
		if e.policy == "ignore" {
			delete(i.ledger, at)
			continue
		}
		known := i.ledger[at]
		known.policy = e.policy
		if known.memo != nil && known.memo.manifest != manifestOf(i, e) {
			known.memo = nil
		}
		i.ledger[at] = known
	}
	result := modelResult{succeeds: true}
	var done []slot
	for _, clusterScoped := range []bool{true, false} {
		for _, at := range slotsOf(i.entries) {
			if i.entries[at].policy == "ignore" || isClusterScoped(at) != clusterScoped {
				continue
			}
			managed, ok, drifted := c.bring(i, at, before[at].memo != nil)
			result.drifted = result.drifted || drifted
			result.succeeds = result.succeeds && ok
			if managed {
				done = append(done, at)
			}
		}
		if !result.succeeds {
			return result
		}
	}
	c.cleanUp(i)
	for _, at := range done {
		result.succeeds = c.patch(i, at) && result.succeeds
	}
	return result
}

// bring brings an object to its manifest. remembered says that there was a memo before the job, be it of another manifest.
func (c *modelCluster) bring(i *modelItem, at slot, remembered bool) (managed, ok, drifted bool) {
	e, known, live := i.entries[at], i.ledger[at], c.objects[at]
	switch {
	case live == nil:
		drifted = known.id != 0 && known.memo != nil
		c.createAs(i, at)
		return true, true, drifted
	case e.policy == "fallback" && !isOwnedBy(live.fields, i):
		delete(i.ledger, at)
		return false, true, false
	case known.memo != nil && maps.Equal(known.memo.named, named(e.desired(i), live.fields)):
		i.note(at, live, known.memo)
		return true, true, false
	case e.policy == "immutable":
		// What is patched is repaired all the same.
		repairs := known.memo != nil && known.memo.patched && !maps.Equal(named(e.desired(i), live.fields), named(e.desired(i), e.patched(live.fields)))
		i.note(at, live, nil)
		return true, true, repairs
	}
	before := maps.Clone(live.fields)
	written := c.write(i, at, remembered)
	if written == immutableField && e.recreate && e.policy != "keep" {
		drifted = known.memo != nil
		c.createAs(i, at)
		return true, true, drifted
	}
	if written != isWritten {
		return false, false, false
	}
	live = c.objects[at]
	after := live.fields
	if known.memo != nil && known.memo.patched {
		after = e.patched(after)
	}
	drifted = known.memo != nil && !maps.Equal(named(e.desired(i), before), named(e.desired(i), after))
	i.note(at, live, &modelMemo{manifest: manifestOf(i, e), named: named(e.desired(i), live.fields)})
	return true, true, drifted
}

func (c *modelCluster) createAs(i *modelItem, at slot) {
	e := i.entries[at]
	initial := e.desired(i)
	if e.made != "" {
		initial[fieldMade] = e.made
	}
	by := updated
	if i.strategy == "apply" {
		by = applied
	}
	live := c.create(at, initial, by)
	i.note(at, live, &modelMemo{manifest: manifestOf(i, e), named: named(e.desired(i), live.fields)})
}

func (i *modelItem) note(at slot, live *modelObject, memo *modelMemo) {
	i.ledger[at] = modelManaged{policy: i.entries[at].policy, id: live.id, memo: memo}
}

// isOwnedBy tells whether the labels of an object name the item, or, without Pergola's label, Landscaper's item of its name.
func isOwnedBy(f fields, i *modelItem) bool {
	if own, ok := f[fieldOwn]; ok {
		return own == i.ownLabel()
	}
	return f[fieldUpstream] == i.name
}

// written is what came of a write.
type written int

const (
	isWritten written = iota
	immutableField
	fieldConflict
)

// write writes an object that exists as the update strategy says.
func (c *modelCluster) write(i *modelItem, at slot, remembered bool) written {
	e, live := i.entries[at], c.objects[at]
	next := live.clone()
	wanted := e.wanted(i.strategy, i, live.fields)
	adopts := i.strategy == "apply" && live.updatedByUs()
	if i.strategy == "apply" {
		// It may change who has the maps around the fields, which the model does not know.
		c.touched[at] = true
	}
	if adopts {
		next.adopt()
		// This is a write of its own, which remains if the next one is refused.
		c.become(at, next.clone())
	}
	if i.strategy != "apply" {
		next.write(wanted, updated)
	} else if !next.apply(wanted, e.force) {
		return fieldConflict
	}
	if !mayBecome(live.fields, next.fields) {
		return immutableField
	}
	// Without a memo a dry run tells whether there is anything to do, apart from what is patched again.
	if remembered || adopts || !maps.Equal(e.patched(next.fields), e.patched(live.fields)) {
		c.become(at, next)
	}
	return isWritten
}

// mayBecome tells whether the API server lets an object become another.
func mayBecome(before, after fields) bool {
	if before[fieldImmutable] == "" {
		return true
	}
	constant := func(f fields) fields {
		f = maps.Clone(f)
		maps.DeleteFunc(f, func(name, _ string) bool { return !isConstant(name) })
		return f
	}
	return maps.Equal(constant(before), constant(after))
}

// patch makes the changes of patchAfterDeployment.
func (c *modelCluster) patch(i *modelItem, at slot) bool {
	e, live := i.entries[at], c.objects[at]
	if e.patch == nil {
		return true
	}
	after := e.patched(live.fields)
	if !mayBecome(live.fields, after) {
		i.note(at, live, nil)
		return false
	}
	live = live.clone()
	live.write(after, updated)
	c.become(at, live)
	memo := i.ledger[at].memo
	if memo != nil {
		memo = &modelMemo{manifest: memo.manifest, named: named(e.desired(i), live.fields), patched: true}
	}
	i.note(at, live, memo)
	return true
}

// cleanUp deletes what an item manages and does not name any more.
func (c *modelCluster) cleanUp(i *modelItem) {
	orphans := maps.Clone(i.ledger)
	maps.DeleteFunc(orphans, func(at slot, _ modelManaged) bool { _, wanted := i.entries[at]; return wanted })
	c.remove(i, orphans, i.groupsDuringUpdate, i.entries)
}

// delete deletes an item.
func (c *modelCluster) delete(i *modelItem) {
	c.touched = map[slot]bool{}
	c.remove(i, maps.Clone(i.ledger), i.groups, nil)
}

// remove deletes managed objects, and with the groups that say so all others of their kind but the spared ones.
func (c *modelCluster) remove(i *modelItem, managed map[slot]modelManaged, groups string, spared map[slot]modelEntry) {
	if len(managed) == 0 {
		return
	}
	kept := map[slot]bool{}
	for at := range spared {
		kept[at] = true
	}
	for at, known := range managed {
		delete(i.ledger, at)
		live := c.objects[at]
		if known.policy == "keep" {
			kept[at] = true
			continue
		}
		if live != nil && takes(groups, at) && mayDelete(i, known, live) {
			delete(c.objects, at)
		}
	}
	for at := range c.objects {
		if groups == groupsAll && at.kind == kindConfigMap && !kept[at] {
			delete(c.objects, at)
		}
	}
}

// mayDelete tells whether an object is still the one that the item manages.
func mayDelete(i *modelItem, known modelManaged, live *modelObject) bool {
	_, labelled := live.fields[fieldOwn]
	ours := isOwnedBy(live.fields, i)
	switch {
	case known.id == 0:
		return ours
	case known.id != live.id && !looksMadeBy(i, live):
		return false
	case labelled && !ours:
		return false
	default:
		return known.policy != "fallback" || ours
	}
}

// looksMadeBy tells whether an object looks as if the item had made it anew: it has its label, and one of our items has written it. One that
// somebody has given the label of another item counts, too, since nothing tells the items' writes apart.
func looksMadeBy(i *modelItem, live *modelObject) bool {
	written := false
	for _, by := range live.managers {
		written = written || by&(applied|updated) != 0
	}
	return written && live.fields[fieldOwn] == i.ownLabel()
}

// The deletion groups of the game.
const (
	groupsDefault    = ""
	groupsEmpty      = "empty"
	groupsNamespaced = "namespaced"
	// groupsConfigMaps takes the ConfigMaps alone, and groupsAll all of them in the namespace, before other namespaced objects.
	groupsConfigMaps = "configmaps"
	groupsAll        = "all"
)

// takes tells whether one of the groups takes an object.
func takes(groups string, at slot) bool {
	switch groups {
	case groupsEmpty:
		return false
	case groupsConfigMaps:
		return at.kind == kindConfigMap
	case groupsNamespaced, groupsAll:
		return !isClusterScoped(at)
	default:
		return true
	}
}
