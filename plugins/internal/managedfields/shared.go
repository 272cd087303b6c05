package managedfields

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// Server-side apply removes a field dropped from the manifest only if no other manager has it. A field set by another
// one, too, stays; Force has these managers give it up before.

// Shared returns the fields given up by a write with server-side apply, this one or an earlier one, but kept by other
// managers; the keys are the indexes of these managers in before.
func Shared(before, after *unstructured.Unstructured, earlier *metav1.FieldsV1) map[int]*fieldpath.Set {
	dropped := ownFields(before).Union(setOf(earlier)).Difference(ownFields(after))
	if dropped.Empty() {
		return nil
	}
	found := map[int]*fieldpath.Set{}
	for n, entry := range before.GetManagedFields() {
		if isOwn(before, entry) || entry.Subresource == "status" {
			continue
		}
		if both := setOf(entry.FieldsV1).Intersection(dropped); !both.Empty() {
			found[n] = both
		}
	}
	return found
}

// maxShared bounds the shared fields in the inventory, in bytes. More than this have to be removed by hand.
const maxShared = 2 << 10

// Record returns shared fields for the inventory: with a digest of their values, since a field changed or set anew
// by another manager is not the dropped one.
func Record(live *unstructured.Unstructured, shared map[int]*fieldpath.Set) string {
	all := allOf(shared)
	document, err := all.ToJSON()
	if err != nil || all.Empty() || len(document) > maxShared {
		return ""
	}
	return digestOf(live, string(document)) + " " + string(document)
}

// Recorded returns the fields of a record; nil for none, and if an object has other values in them by now.
func Recorded(record string, live *unstructured.Unstructured) *metav1.FieldsV1 {
	made, document, _ := strings.Cut(record, " ")
	if document == "" || live == nil || made != digestOf(live, document) {
		return nil
	}
	return fieldsV1(document)
}

// digestOf returns the digest of an object's values in a set of fields.
func digestOf(live *unstructured.Unstructured, document string) string {
	return objects.Digest(only(setIn(metav1.ManagedFieldsEntry{FieldsV1: fieldsV1(document)}), live.Object))
}

func fieldsV1(document string) *metav1.FieldsV1 {
	fields := &metav1.FieldsV1{}
	fields.SetRawBytes([]byte(document))
	return fields
}

func allOf(shared map[int]*fieldpath.Set) *fieldpath.Set {
	all := fieldpath.NewSet()
	for _, fields := range shared {
		all = all.Union(fields)
	}
	return all
}

// Describe returns shared fields with their managers, for the user.
func Describe(before *unstructured.Unstructured, shared map[int]*fieldpath.Set) []string {
	var texts []string
	for n, entry := range before.GetManagedFields() {
		if fields, ok := shared[n]; ok {
			for path := range fields.Leaves().All() {
				texts = append(texts, fmt.Sprintf("%s (%s)", strings.TrimPrefix(path.String(), "."), entry.Manager))
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// HasShared reports whether other managers have set fields of ours.
func HasShared(live *unstructured.Unstructured) bool {
	own := ownFields(live)
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return !isOwn(live, entry) && entry.Subresource != "status" && !setOf(entry.FieldsV1).Intersection(own).Empty()
	})
}

// ownFields returns our fields, with those to become ours before an object is applied.
func ownFields(o *unstructured.Unstructured) *fieldpath.Set {
	own := fieldpath.NewSet()
	for _, entry := range o.GetManagedFields() {
		if isOwn(o, entry) {
			own = own.Union(setOf(entry.FieldsV1))
		}
	}
	return own
}

func isOwn(o *unstructured.Unstructured, entry metav1.ManagedFieldsEntry) bool {
	if entry.Subresource != "" {
		return false
	}
	if entry.Operation == metav1.ManagedFieldsOperationApply {
		return entry.Manager == owner.FieldManager
	}
	return FormerManagers(o).Has(entry.Manager)
}

// setOf returns the fields of an entry; none of an unreadable one.
func setOf(fields *metav1.FieldsV1) *fieldpath.Set {
	set := fieldpath.NewSet()
	if fields == nil || set.FromJSON(bytes.NewReader(fields.GetRawBytes())) != nil {
		return fieldpath.NewSet()
	}
	return set
}

func fieldsOf(set *fieldpath.Set) (*metav1.FieldsV1, error) {
	document, err := set.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("write managedFields: %w", err)
	}
	return fieldsV1(string(document)), nil
}

// GiveUp returns the entries of an object after their managers have given up shared fields.
func GiveUp(
	live *unstructured.Unstructured, shared map[int]*fieldpath.Set,
) (entries []metav1.ManagedFieldsEntry, err error) {
	for n, entry := range live.GetManagedFields() {
		fields := setOf(entry.FieldsV1)
		switch {
		case shared[n] != nil:
			fields = fields.Difference(shared[n])
		case isOwn(live, entry): // a field is removed only if a manager of it gives it up
			fields = fields.Union(allOf(shared))
		}
		if entry.FieldsV1, err = fieldsOf(fields); err != nil {
			return nil, err
		}
		if !fields.Empty() {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}
