package managedfields

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

type fields = map[string]any

// applied is an entry of server-side apply.
func applied(manager, set string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(set),
	}
}

func live(entries ...metav1.ManagedFieldsEntry) *unstructured.Unstructured {
	o := plugintest.Object(`{metadata: {finalizers: [ours, theirs]}, spec: {selector: {app: a}, size: "1", theirs: x,
		ports: [{port: 80, name: http}, {port: 81}]}}`)
	o.SetManagedFields(entries)
	return o
}

const ownSet = `{"f:metadata":{"f:finalizers":{"v:\"ours\"":{}}},
	"f:spec":{"f:selector":{},"f:size":{},"f:ports":{"k:{\"port\":80}":{".":{},"f:port":{},"f:name":{}}}}}`

// TestFields: a set is read along maps, and in lists by the names or the values of elements.
func TestFields(t *testing.T) {
	t.Parallel()
	o := live(applied(owner.FieldManager, ownSet), applied("another", `{"f:spec":{"f:theirs":{}}}`))
	for path, want := range map[string]struct{ owned, whole bool }{
		"spec":                   {true, false},
		"spec.size":              {true, true},
		"spec.selector":          {true, true},
		"spec.selector.app":      {true, true},
		"spec.ports":             {true, false},
		"spec.ports.0":           {true, false},
		"spec.ports.0.name":      {true, true},
		"spec.ports.1":           {false, false},
		"spec.ports.2":           {false, false},
		"spec.ports.x":           {false, false},
		"metadata.finalizers.0":  {true, true},
		"metadata.finalizers.1":  {false, false},
		"spec.theirs":            {false, true},
		"status":                 {false, false},
		"metadata.finalizers.-1": {false, false},
	} {
		at := strings.Split(path, ".")
		if owned, whole := Owns(o, at), IsWhole(o, at); owned != want.owned || whole != want.whole {
			t.Errorf("%s: expected it to be our own and one value: %+v, but found %t, %t", path, want, owned, whole)
		}
	}
	part := plugintest.Fields(`{metadata: {finalizers: [ours]}, spec: {selector: {app: a}, size: "1",
		ports: [{port: 80, name: http}]}}`)
	if diff := cmp.Diff(part, OwnPart(o)); diff != "" {
		t.Errorf("our own part: -want +got:\n%s", diff)
	}
	for name, entry := range map[string]metav1.ManagedFieldsEntry{
		"no set": {Manager: owner.FieldManager}, "unreadable": applied(owner.FieldManager, "nonsense"),
		"of the status": {Manager: owner.FieldManager, Subresource: "status", FieldsV1: metav1.NewFieldsV1(ownSet)},
	} {
		if o := live(entry); Owns(o, []string{"spec", "size"}) || len(OwnPart(o)) > 0 {
			t.Errorf("%s: expected no own fields", name)
		}
	}
}

// TestShared: a dropped field is shared if another manager still has it, until this one gives it up.
func TestShared(t *testing.T) {
	t.Parallel()
	const both, less = `{"f:spec":{"f:size":{},"f:theirs":{}}}`, `{"f:spec":{"f:size":{}}}`
	status := applied("controller", both)
	status.Operation, status.Subresource = metav1.ManagedFieldsOperationUpdate, "status"
	another := applied("another", `{"f:spec":{"f:theirs":{},"f:selector":{}}}`)
	before := live(applied(owner.FieldManager, both), another, status)
	after := live(applied(owner.FieldManager, less), another, status)
	if !HasShared(before) || HasShared(after) {
		t.Error("only the fields of two managers are shared")
	}
	found := Shared(before, after, nil)
	if diff := cmp.Diff([]string{"spec.theirs (another)"}, Describe(before, found)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(Shared(before, before, nil)) > 0 || len(Shared(after, after, nil)) > 0 {
		t.Error("nothing was dropped, but something is shared")
	}
	record := Record(after, found)
	earlier := Recorded(record, after)
	if diff := cmp.Diff([]string{"spec.theirs (another)"}, Describe(after, Shared(after, after, earlier))); diff != "" {
		t.Errorf("from the record: -want +got:\n%s", diff)
	}
	changed := live(another)
	changed.Object["spec"].(fields)["theirs"] = "y"
	if Recorded(record, changed) != nil || Recorded(record, nil) != nil || Recorded("", after) != nil ||
		Record(after, nil) != "" {
		t.Error("a field changed since counts as the dropped one")
	}

	entries, err := GiveUp(before, found)
	if err != nil {
		t.Fatal(err)
	}
	given := live(entries...)
	theirs, selector := []string{"spec", "theirs"}, []string{"spec", "selector"}
	if IsWhole(given, theirs) != Owns(given, theirs) || !IsWhole(given, selector) {
		t.Errorf("expected the field to be left to this manager alone, but found %v", entries)
	}
	if len(Shared(given, after, nil)) > 0 {
		t.Error("the field is still shared")
	}
	alone := live(applied(owner.FieldManager, both), applied("another", `{"f:spec":{"f:theirs":{}}}`))
	if entries, err := GiveUp(alone, Shared(alone, after, nil)); err != nil || len(entries) != 1 {
		t.Errorf("expected no entry without fields, but found %v, %v", entries, err)
	}
}

// TestRecordIsBounded: more than a bounded number of fields has to be removed by hand.
func TestRecordIsBounded(t *testing.T) {
	t.Parallel()
	set := `{"f:data":{"f:` + strings.Repeat("x", maxShared) + `":{}}}`
	after := live(applied("another", set))
	before := live(applied(owner.FieldManager, set), applied("another", set))
	if found := Shared(before, after, nil); len(found) != 1 || Record(after, found) != "" {
		t.Errorf("expected shared fields without a record, but found %v", found)
	}
}
