// Package prune deletes objects from a target cluster, group by group and without waiting.
//
// # Groups
//
// A deletion is done in groups, one after the other: the next one begins when nothing is left of the one before. The
// first group that an object fits in takes it; an object that fits in none is not deleted. Without groups, what needs a
// server to answer it comes first, such as configurations of webhooks, then namespaced objects, then cluster-scoped
// ones, then CustomResourceDefinitions. So what a controller needs to finish its objects is there until they are
// finished, as long as it is in a later group than they are.
//
// # What is deleted
//
// An object is deleted if it is the very one that the entry is about: the one with its uid, or, as long as that is not
// known, one with the label of the deploy item; or one that the deploy item has made anew without having noted its uid.
// What another deploy item has taken over is its own affair. The deletion is sent with the uid and the resourceVersion
// of the object that was looked at as preconditions; so nothing is deleted that was exchanged, taken over or changed in
// between, such as by somebody who withdraws an annotation that the deletion needs. What depends on an object is
// deleted in the background.
//
// # What stays with what is kept
//
// A Namespace, a CustomResourceDefinition or an owner stays with each object that stays: with those that the policy
// keeps, with those that the deploy item still wants, and with those that belong to others by now. The kept ones are
// read first, so that the order of the groups does not matter for them, and only those that exist count.
//
// # Requests
//
// An object costs a GET, a DELETE and a GET; one that is being deleted already costs one GET per call. The first GET
// cannot be saved: only the object itself tells to whom it belongs by now. But where there are more than a few objects
// of a kind in a namespace, a list of their metadata takes the place of the first GETs, and each call while they are
// being deleted costs one list.
package prune

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Deletion is what is to be deleted.
type Deletion struct {
	// Groups say what is deleted, and in which order.
	Groups Groups
	// Entries are the managed objects that are to go: all of a deploy item that is deleted, the orphans of one that is
	// updated. They have the namespaces of their objects.
	Entries []managedresource.ManagedResourceStatus
	// Applied are the uids of the objects that the deploy item has just applied. None of them is an orphan, by whatever
	// name an entry has it: two groups may serve an object, as they do with Event. May be nil.
	Applied map[types.UID]bool
	// Spare are objects on the deploy item's own target that a group with deleteAllResources must not delete: what the
	// deploy item still wants when it is updated. May be nil.
	Spare map[object.Key]bool
	// Owned are the objects that the deploy item has just applied, or would apply, and that have owners. May be nil.
	Owned []apply.Owned
	// Kept, if set, is asked instead of the policy keep, and with the metadata of an object as it is on the target: it
	// says why the object stays, and nothing for one that goes. What it keeps no group deletes.
	Kept func(entry managedresource.ManagedResourceStatus, live metav1.Object) (why string)
	// Owner is the deploy item, or its release.
	Owner owner.Claim
	// Lookup finds the Targets that groups name. It may be nil if they name none.
	Lookup target.Lookup
	// AsOf is when the call began; see target.Client.Mapping.
	AsOf time.Time

	// stays is found by Run and Diff, and so are the doubts about kinds that the target does not serve.
	stays  *stays
	doubts map[schema.GroupKind]string
}

// Result is what came of a deletion. It holds each entry at most once.
type Result struct {
	// Gone are the objects that are not managed any more because they do not exist, or because there is another one
	// under the name now.
	Gone []object.Key
	// Left are the objects that are not managed any more but stay on the target. They are managed until the deletion is
	// complete: until then the user may change what decides on them.
	Left []Left
	// Waiting names what still exists, and what keeps it. Empty if the deletion is complete.
	Waiting []string
	// Seen are the objects that are waited for, as they were seen; of very many only some.
	Seen []watch.Seen
}

// Left is an object that stays on the target and is not managed any more.
type Left struct {
	Key object.Key
	// Why it stays, for people.
	Why string
}

// Run does what can be done now: it sends the deletions of the first group that is not finished and looks what is left;
// when nothing is, it goes on with the next. Otherwise it ends with Result.Waiting and is to be called again with the
// entries that are neither gone nor left. It does not wait.
//
// Without entries it does nothing, whatever the groups say: deleteAllResources is for deploy items that have deployed
// something. So that the caller comes again as long as such a group is not finished, one entry is reported as gone only
// then.
//
// The error of one object stops neither the others of its group nor those that were decided on already, only the groups
// that come later. The errors of all are returned together, each with its object, if nothing is on its way or trying
// again would not help (one of them has a code); then the job cannot do better than to fail, or to be retried as errors
// are. Otherwise the caller calls again soon anyway, and Run tries those objects again, too: they are in
// Result.Waiting with their errors, and there is no error. What is in the result is true in any case.
func Run(ctx context.Context, client *target.Client, d Deletion) (Result, error) {
	if len(d.Entries) == 0 {
		return Result{}, nil
	}
	d.doubts = map[schema.GroupKind]string{}
	var err error
	if d.stays, err = d.findStays(ctx, client); err != nil {
		return Result{}, err
	}
	sorted, err := d.sort(ctx, client)
	if err != nil {
		return Result{}, err
	}
	result := Result{Gone: sorted.gone, Left: sorted.left}
	for i, s := range sorted.steps {
		err := s.run(ctx, client, d, sorted.steps[i+1:], &result)
		if err == nil && len(result.Waiting) == 0 {
			continue
		}
		result.Left = nil
		if len(result.Gone) == len(d.Entries) && anyDeletesAll(sorted.steps[i:]) {
			result.Gone = result.Gone[1:]
		}
		return result, err
	}
	return result, nil
}
