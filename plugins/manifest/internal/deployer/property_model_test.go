package deployer_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// The model of the property test: what docs/manifest.md and the reference of Kubernetes say becomes of objects. Fields are flat: of an
// object they are those below, each with a text.
const (
	fieldTeam      = "labels/team"
	fieldOwn       = "labels/" + owner.Label
	fieldUpstream  = "labels/" + v1alpha2.DeployItemLabel
	fieldMade      = "annotations/example.org/made"
	fieldImmutable = "immutable"
	// fieldRest stands for what all objects of a kind have, such as the ports of a Service.
	fieldRest = "rest"
	// valuePrefix begins the names of the values, which are where a kind has a map of texts.
	valuePrefix = "values/"
)

// fields are those of an object, or of a manifest.
type fields map[string]string

// isConstant tells whether an object of its kind can change a field while it is immutable.
func isConstant(field string) bool {
	return field == fieldImmutable || strings.HasPrefix(field, valuePrefix)
}

// The field managers. What we have created, updated or patched is ours in another way than what we have applied.
type manager int

const (
	applied manager = 1 << iota
	updated
	others
)

// slot is a place for an object: a kind and a name.
type slot struct{ kind, name string }

func (s slot) String() string { return s.kind + " " + s.name }

// modelObject is an object on the target.
type modelObject struct {
	// id is another one for each object that was created.
	id       int
	fields   fields
	managers map[string]manager
}

func (o *modelObject) clone() *modelObject {
	if o == nil {
		return nil
	}
	return &modelObject{id: o.id, fields: maps.Clone(o.fields), managers: maps.Clone(o.managers)}
}

// write gives the object other fields by an update of a manager, who then has those that are different.
func (o *modelObject) write(wanted fields, by manager) {
	for name := range o.fields {
		if _, ok := wanted[name]; !ok {
			delete(o.fields, name)
			delete(o.managers, name)
		}
	}
	for name, value := range wanted {
		if before, ok := o.fields[name]; !ok || before != value {
			o.fields[name], o.managers[name] = value, by
		}
	}
}

// adopt makes what we have updated count as applied.
func (o *modelObject) adopt() {
	for name, m := range o.managers {
		if m&updated != 0 {
			o.managers[name] = m&^updated | applied
		}
	}
}

// updatedByUs tells whether something is ours by an update.
func (o *modelObject) updatedByUs() bool {
	for _, m := range o.managers {
		if m&updated != 0 {
			return true
		}
	}
	return false
}

// apply is server-side apply. It tells whether that is possible: the fields of others need force, apart from the labels of owners.
func (o *modelObject) apply(wanted fields, force bool) bool {
	for name, value := range wanted {
		isOther := o.managers[name]&others != 0
		if isOther && o.fields[name] != value && !force && name != fieldOwn && name != fieldUpstream {
			return false
		}
	}
	for name := range o.fields {
		if _, ok := wanted[name]; ok || o.managers[name]&applied == 0 {
			continue
		}
		if o.managers[name] &^= applied; o.managers[name] == 0 {
			delete(o.fields, name)
			delete(o.managers, name)
		}
	}
	for name, value := range wanted {
		if before, ok := o.fields[name]; !ok || before != value {
			o.managers[name] = 0
		}
		o.fields[name] = value
		o.managers[name] |= applied
	}
	return true
}

// modelEntry is an entry of the manifests.
type modelEntry struct {
	policy          string
	fields          fields
	recreate, force bool
	// made is annotateBeforeCreate; empty for none.
	made string
	// patch is patchAfterDeployment: null is a text of its own; nil for none.
	patch fields
}

// null in a patch removes a field.
const null = "null"

// desired returns the fields of the manifest for an item.
func (e modelEntry) desired(i *modelItem) fields {
	all := maps.Clone(e.fields)
	all[fieldRest] = ""
	all[fieldOwn], all[fieldUpstream] = i.ownLabel(), i.name
	return all
}

// patched returns fields after patchAfterDeployment.
func (e modelEntry) patched(before fields) fields {
	after := maps.Clone(before)
	for name, value := range e.patch {
		if value == null {
			delete(after, name)
			continue
		}
		after[name] = value
	}
	return after
}

// wanted returns what an object is to become by an update strategy, or, with server-side apply, what is applied.
func (e modelEntry) wanted(strategy string, i *modelItem, live fields) fields {
	manifest := e.desired(i)
	var out fields
	switch strategy {
	case "merge", "mergeOverwrite":
		out = maps.Clone(live)
		for name, value := range manifest {
			before, ok := live[name]
			isOwner := name == fieldOwn || name == fieldUpstream
			fills := !ok || before == ""
			if isOwner || fills || strategy == "mergeOverwrite" && value != "" {
				out[name] = value
			}
		}
	default:
		out = manifest
	}
	if made, ok := live[fieldMade]; ok && e.made != "" {
		out[fieldMade] = made
	}
	return out
}

// named returns the fields of an object that a manifest names.
func named(manifest, live fields) fields {
	out := fields{}
	for name := range manifest {
		if value, ok := live[name]; ok {
			out[name] = value
		}
	}
	return out
}

// modelItem is a deploy item with what it manages.
type modelItem struct {
	namespace, name string
	strategy        string
	entries         map[slot]modelEntry
	// groups name the deletion groups of the item's deletion, and of its updates; see deletionGroups.
	groups, groupsDuringUpdate string
	ledger                     map[slot]modelManaged
}

func (i *modelItem) ownLabel() string { return i.namespace + "." + i.name }

// modelManaged is what an item knows of an object.
type modelManaged struct {
	policy string
	// id of the object; 0 if it was not seen yet.
	id int
	// memo is how the object looked when the job was done with it; nil if nobody knows.
	memo *modelMemo
}

type modelMemo struct {
	manifest string
	named    fields
	patched  bool
}

// slotsOf returns the slots of a map in a fixed order.
func slotsOf[V any](m map[slot]V) []slot {
	return slices.SortedFunc(maps.Keys(m), func(a, b slot) int { return strings.Compare(a.String(), b.String()) })
}
