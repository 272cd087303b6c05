package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// verdict is what is to be done with an object.
type verdict int

const (
	// create: it is missing.
	create verdict = iota
	// write: it has to be written.
	write
	// compare: only a dry run of the write can tell whether it has to be written.
	compare
	// leave: it is as it should be, or must not be changed.
	leave
	// skip: it is not ours to manage.
	skip
	// wait: it is about to go, and can be created after that.
	wait
)

// decision is a verdict with what belongs to it.
type decision struct {
	verdict verdict
	// why is for skip and wait.
	why string
	// memo is for leave.
	memo string
}

// decide says what is to be done with an object; live is nil if it does not exist. entry is what the ledger held about it.
func decide(i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured) decision {
	switch {
	case live == nil:
		return decision{verdict: create}
	case i.Policy == managedresource.PolicyFallback && i.relation(live) != owner.Ours:
		return decision{verdict: skip, why: "its policy is fallback, and it belongs to " + i.ownerOf(live)}
	case live.GetDeletionTimestamp() != nil && isFirstSeenDone(i, entry, live):
		return decision{verdict: leave, memo: entry.Applied}
	case live.GetDeletionTimestamp() != nil:
		return decision{verdict: wait, why: fmt.Sprintf("%s, which is being deleted, to be gone before it is created again", i.Key)}
	case fits(entry.Applied, i, live):
		return decision{verdict: leave, memo: entry.Applied}
	case i.Policy == managedresource.PolicyImmutable:
		// Without a memo: nobody knows how it compares with the manifest, should it become ours to change.
		return decision{verdict: leave}
	case i.Strategy != managedresource.UpdateStrategyApply && same(wanted(i, live), live):
		return decision{verdict: leave, memo: memo(i, live)}
	case entry.Applied == "":
		return decision{verdict: compare}
	default:
		return decision{verdict: write}
	}
}

// isFirstSeenDone tells whether an object is complete and was not when it was looked at last: somebody deletes it because it is.
func isFirstSeenDone(i *Item, entry managedresource.ManagedResourceStatus, live *unstructured.Unstructured) bool {
	return entry.DoneIn == "" && entry.Resource.UID == live.GetUID() && !i.Stale(entry.Applied) && readiness.IsComplete(live)
}

// ownerOf says to whom an object belongs that is not ours.
func (i *Item) ownerOf(live *unstructured.Unstructured) string {
	if other := owner.Of(live, i.owner.UpstreamLabel); other != "" {
		return fmt.Sprintf("the deploy item %q", other)
	}
	return "no deploy item"
}
