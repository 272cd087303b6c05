// Package prune deletes objects from a target cluster, group by group and without waiting.
//
// # Groups
//
// A deletion is done in groups, one after the other: the next one begins when nothing is left of the one before. The
// first fitting group takes an object; an object that fits in none is not deleted. Without groups, objects in need of
// a server's answer come first, such as configurations of webhooks, then namespaced objects, then cluster-scoped
// ones, then CustomResourceDefinitions. So the objects a controller needs to finish its own are there until these are
// finished, if they are in a later group.
//
// # Objects to be deleted
//
// An object is deleted if it is the very one of the entry: the one with its uid, or, while the uid is unknown, one
// with the label of the deploy item; or one made anew by the deploy item before its uid was noted. An object taken
// over by another deploy item is the business of that item. The preconditions of the deletion are the uid and the
// resourceVersion of the object as it was read; so nothing is deleted that was exchanged, taken over or changed in
// between, such as by the withdrawal of an annotation needed for the deletion. Dependents of an object are deleted in
// the background.
//
// # Objects to stay
//
// A Namespace, a CustomResourceDefinition or an owner stays with each object that stays: with those kept by the
// policy, with those the deploy item still wants, and with those that belong to others by now. The kept ones are read
// first, so the order of the groups does not matter for them, and only existing ones count.
//
// # Requests
//
// An object costs a GET, a DELETE and a GET; an object under deletion costs one GET per call. The first GET cannot be
// saved: only the object itself shows its owner by now. But where there are more than a few objects of a kind in a
// namespace, a list of their metadata takes the place of the first GETs, and each call costs one list while they are
// under deletion.
package prune

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Deletion is the input of Run and Diff.
type Deletion struct {
	// Groups select the objects, and set their order.
	Groups Groups
	// Entries are the managed objects to be deleted: all of a deleted deploy item, the orphans of an updated one. They
	// have the namespaces of their objects.
	Entries []managedresource.ManagedResourceStatus
	// Applied are the uids of the objects just applied by the deploy item. None of them is an orphan, also under another
	// name in an entry: two groups may serve an object, as they do with Event. May be nil.
	Applied map[types.UID]bool
	// Spare are objects on the deploy item's own target that a group with deleteAllResources must not delete: those
	// still wanted in an update. May be nil.
	Spare map[object.Key]bool
	// Owned are the objects with owners that the deploy item has just applied, or would apply. May be nil.
	Owned []objects.Owned
	// Kept, if set, is called instead of the policy keep, with the metadata of an object as it is on the target: it
	// returns the reason for the object to stay; empty if it goes. No group deletes the objects it keeps.
	Kept func(entry managedresource.ManagedResourceStatus, live metav1.Object) (why string)
	// Owner is the deploy item.
	Owner owner.Owner
	// AtHome: the target is the cluster with the deploy item.
	AtHome bool
	// Lookup finds the Targets named by groups. It may be nil if they name none.
	Lookup target.Lookup
	// AsOf is the beginning of the call; see target.Client.Mapping.
	AsOf time.Time
}

// Result is the result of a deletion. It holds each entry at most once.
type Result struct {
	// Gone are the objects not managed any more because they do not exist, or because there is another one under the
	// name now.
	Gone []object.Key
	// Unfinished: all entries are gone, but a group with deleteAllResources has more to delete. The caller has to keep an
	// entry for the next call.
	Unfinished bool
	// Left are the objects not managed any more, but still on the target. They are managed until the deletion is
	// complete: until then the user may change the reasons.
	Left []Left
	// Waiting names the remaining objects, with their obstacles. Empty if the deletion is complete.
	Waiting []string
	// Seen are the remaining objects, as they were read; of very many only some.
	Seen []watch.Seen
}

// Left is an object not managed any more, but still on the target.
type Left struct {
	Key object.Key
	// Why is the reason to stay, for the user.
	Why string
}
