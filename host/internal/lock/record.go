package lock

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// record is what is known of a SyncObject: the newest that the watch has delivered or that was written here.
type record struct {
	key     Key
	uid     types.UID // of the SyncObject
	version string
	// podName and process are the holder; podName is empty if there is none, process if it is of another implementation.
	podName, process string
	// settled is the version of the item at which there was nothing to do; empty if that is not known. note is what else its last holder
	// has left about that.
	settled, note string
}

func recordOf(key Key, object *v1alpha1.SyncObject) record {
	settled, note, _ := strings.Cut(object.Annotations[AnnotationSettled], " ")
	return record{
		key:     key,
		uid:     object.UID,
		version: object.ResourceVersion,
		podName: object.Spec.PodName,
		process: object.Annotations[AnnotationProcess],
		settled: settled,
		note:    note,
	}
}

// newer tells whether version a is newer than b. Versions that cannot be compared count as newer.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// Stats are the figures of the locks of one plugin since the start.
type Stats struct {
	Plugin string
	// Held is how many locks are held now.
	Held int
	// Acquired counts locks taken, TakenOver those of them that a dead holder had. Conflicts counts the attempts that came too late,
	// because another replica took the lock in the same moment. Lost counts locks that were lost before they were given back.
	Acquired, TakenOver, Conflicts, Lost uint64
}

func comparePlugin(a, b Stats) int { return cmp.Compare(a.Plugin, b.Plugin) }
