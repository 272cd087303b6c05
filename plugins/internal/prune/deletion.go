package prune

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/target"
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
