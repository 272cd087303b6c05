package desired

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// maxFields bounds the fields of a Drift.
	maxFields = 20
	// maxRefusal bounds the reason for a refused repair, in bytes: it is kept in the provider status.
	maxRefusal = 300
)

// Drift is an object changed or deleted by others since it was applied.
type Drift struct {
	Key object.Key
	// Missing: the object did not exist any more.
	Missing bool
	// Fields are the paths of the repaired fields, or of those to be repaired, such as spec.replicas or
	// data["app.conf"], sorted. At most the first 20.
	Fields []string
	// Refused is the target's reason against the repair; empty for none. The object stays as it is.
	Refused string
}

// String returns the differing fields, for the user.
func (d *Drift) String() string {
	fields := strings.Join(d.Fields, ", ")
	if d.Refused != "" {
		return fmt.Sprintf("%s: the target refuses the repair, and the object stays as it is: %s", fields, d.Refused)
	}
	return fields
}

// NotRepaired returns the drift of an object after a refused repair.
func NotRepaired(i *Object, live *unstructured.Unstructured, why error) *Drift {
	return &Drift{
		Key: i.Key, Fields: Deviating(i, live, i.Desired), Refused: object.Cut(why.Error(), maxRefusal),
	}
}

// Missing returns the drift of a missing object; nil if it is not known to have existed as in the manifest, and for a
// completed one, since such objects go by themselves.
func Missing(i *Object, entry managedresource.ManagedResourceStatus) *Drift {
	if entry.Resource.UID == "" || entry.DoneIn != "" || i.Stale(entry.Applied) {
		return nil
	}
	return &Drift{Key: i.Key, Missing: true}
}

// Repaired returns the drift of an object right after its write; nil if the manifest itself has changed, and if the
// write has repaired nothing. Fields changed again by patchAfterDeployment do not count.
func Repaired(i *Object, entry managedresource.ManagedResourceStatus, before, after *unstructured.Unstructured) *Drift {
	if i.Stale(entry.Applied) {
		return nil
	}
	if WasPatched(entry.Applied) {
		before = &unstructured.Unstructured{Object: objects.WithoutEmptied(before.DeepCopy().Object, i.PatchAfterDeployment)}
		after = i.Finally(after)
	}
	fields := Deviating(i, before, after)
	if len(fields) == 0 {
		return nil
	}
	return &Drift{Key: i.Key, Fields: fields}
}

// Deviating returns the paths of the first compared fields with different values in two states of an object.
func Deviating(i *Object, before, after *unstructured.Unstructured) []string {
	fields := differences(i.named(before), i.named(after), "")
	slices.Sort(fields)
	return fields[:min(len(fields), maxFields)]
}

// differences returns the paths of the different fields of two JSON values. For lists of different lengths it is the
// path of the list.
func differences(a, b any, path string) []string {
	aMap, aIsMap := a.(map[string]any)
	bMap, bIsMap := b.(map[string]any)
	aList, aIsList := a.([]any)
	bList, bIsList := b.([]any)
	var paths []string
	switch {
	case aIsMap && bIsMap:
		for key, value := range aMap {
			other, ok := bMap[key]
			if !ok {
				paths = append(paths, join(path, key))
				continue
			}
			paths = append(paths, differences(value, other, join(path, key))...)
		}
		for key := range bMap {
			if _, ok := aMap[key]; !ok {
				paths = append(paths, join(path, key))
			}
		}
	case aIsList && bIsList && len(aList) == len(bList):
		for index := range aList {
			paths = append(paths, differences(aList[index], bList[index], path+"["+strconv.Itoa(index)+"]")...)
		}
	case !reflect.DeepEqual(a, b):
		paths = append(paths, path)
	}
	return paths
}

// join appends a field to a path. Quotes keep a name with a dot from being taken for two.
func join(path, name string) string {
	switch {
	case strings.ContainsAny(name, `."[]/ `):
		return path + "[" + strconv.Quote(name) + "]"
	case path == "":
		return name
	default:
		return path + "." + name
	}
}
