package prune

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// deletion is a deletion at work on the deploy item's own target.
type deletion struct {
	Deletion

	client *target.Client
	stays  *stays
	// doubts are the reasons why objects of kinds not served by the target may exist; empty for none.
	doubts map[schema.GroupKind]string
}

// begin finds the objects to stay. The error is about the target as a whole.
func begin(ctx context.Context, client *target.Client, d Deletion) (*deletion, error) {
	work := &deletion{Deletion: d, client: client, stays: newStays(), doubts: map[schema.GroupKind]string{}}
	return work, work.findStays(ctx)
}

// step is a group with its managed objects.
type step struct {
	group group
	items []item
	// failures are the errors of sorting, about objects the group may take.
	failures []failure
	// doubts are about objects of kinds not served by the target: they are waited for.
	doubts []failure
}

// anyDeletesAll reports whether a step deletes unmanaged objects.
func anyDeletesAll(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.group.all })
}

// failure is an error with its subject.
type failure struct {
	what string
	err  error
}

// ignoreGone returns nil for the error about a missing object.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) && !notServed(err) {
		return nil
	}
	return err
}

// notServed reports whether an error is about a kind not served, rather than a missing object: only the server of a
// kind answers about objects.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
