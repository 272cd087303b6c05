// Package remove deletes objects from a target cluster, step by step and without waiting.
package remove

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/plugins/internal/targeterror"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// concurrency bounds how many objects are worked on at once, per call.
const concurrency = 8

// Ours tells whether an object was applied by the deploy item that deletes it. It is asked only about objects whose uid is not
// known, because the job that noted them never came to create them or never learned of it: what carries the name then may be
// somebody else's.
type Ours func(*unstructured.Unstructured) bool

// Result is what came of a deletion.
type Result struct {
	// Gone are the objects that do not exist any more, or never did.
	Gone []object.Key
	// Waiting names the objects that still exist, and what keeps them. Empty if all are gone or the deletion failed.
	Waiting []string
}

// Run deletes objects: namespaced ones first, then cluster-scoped ones, then CustomResourceDefinitions, each step when nothing
// is left of the one before. It sends the deletions and looks what is left; when something is, it ends with Result.Waiting and
// is to be called again.
//
// An object whose kind is not served any more counts as gone, and so does one that was replaced by another with its name. What
// depends on an object is deleted in the background.
//
// The error holds those of all objects of a step; what is gone is in the result all the same. asOf is for Client.Mapping.
func Run(
	ctx context.Context, client *targetclient.Client, entries []managedresource.ManagedResourceStatus, ours Ours, asOf time.Time,
) (Result, error) {
	var result Result
	steps, gone, err := sortIntoSteps(ctx, client, entries, asOf)
	if err != nil {
		return result, err
	}
	result.Gone = gone
	for _, step := range steps {
		var errs []error
		for i, o := range removeAll(ctx, client, step, ours) {
			switch {
			case o.err != nil:
				errs = append(errs, fmt.Errorf("delete %s: %w", step[i].key, targeterror.Explain(client.Host, o.err)))
			case o.left != "":
				result.Waiting = append(result.Waiting, o.left)
			default:
				result.Gone = append(result.Gone, step[i].key)
			}
		}
		if err := targeterror.Collect(errs); err != nil || len(result.Waiting) > 0 {
			return result, err
		}
	}
	return result, nil
}

// item is one object to delete.
type item struct {
	key     object.Key
	mapping targetclient.Mapping
	entry   managedresource.ManagedResourceStatus
}

func sortIntoSteps(
	ctx context.Context, client *targetclient.Client, entries []managedresource.ManagedResourceStatus, asOf time.Time,
) (steps [][]item, gone []object.Key, err error) {
	steps = make([][]item, 3)
	for _, entry := range entries {
		key := object.KeyOfReference(entry.Resource)
		mapping, err := client.MappingInAnyVersion(ctx, object.GVK(entry.Resource.APIVersion, entry.Resource.Kind), asOf)
		if meta.IsNoMatchError(err) {
			gone = append(gone, key)
			continue
		}
		if err != nil {
			return nil, nil, targeterror.Explain(client.Host, err)
		}
		step := 1
		switch {
		case mapping.Namespaced:
			step = 0
		case object.IsCRD(key.Group, key.Kind):
			step = 2
		}
		steps[step] = append(steps[step], item{key: key, mapping: mapping, entry: entry})
	}
	return steps, gone, nil
}

// outcome is what came of one object; the zero value means that it is gone.
type outcome struct {
	left string
	err  error
}

func removeAll(ctx context.Context, client *targetclient.Client, step []item, ours Ours) []outcome {
	outcomes := make([]outcome, len(step))
	var workers errgroup.Group
	workers.SetLimit(concurrency)
	for i, it := range step {
		workers.Go(func() error {
			outcomes[i] = removeOne(ctx, client.Objects(it.mapping, it.key.Namespace), it, ours)
			return nil
		})
	}
	_ = workers.Wait() // the errors are in the outcomes
	return outcomes
}

// removeOne sends a deletion and looks what is left. A deletion that was refused with a conflict is judged by what is left
// too: the name may belong to another object by now, or a namespace may be going already.
func removeOne(ctx context.Context, objects dynamic.ResourceInterface, it item, ours Ours) outcome {
	uid := it.entry.Resource.UID
	if uid == "" {
		live, err := objects.Get(ctx, it.key.Name, metav1.GetOptions{})
		if err != nil {
			return outcome{err: ignoreNotFound(err)}
		}
		if !ours(live) {
			return outcome{}
		}
		uid = live.GetUID()
	}
	background := metav1.DeletePropagationBackground
	refusal := objects.Delete(ctx, it.key.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: &background,
	})
	if refusal != nil && !apierrors.IsConflict(refusal) {
		return outcome{err: ignoreNotFound(refusal)}
	}
	live, err := objects.Get(ctx, it.key.Name, metav1.GetOptions{})
	if err != nil {
		return outcome{err: ignoreNotFound(err)}
	}
	switch {
	case live.GetUID() != uid:
		return outcome{}
	case refusal != nil && live.GetDeletionTimestamp() == nil:
		return outcome{err: refusal}
	default:
		return outcome{left: describe(it.key, live)}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// describe names an object that is being deleted and says since when and by which finalizers it is kept.
func describe(key object.Key, live *unstructured.Unstructured) string {
	var details []string
	if since := live.GetDeletionTimestamp(); since != nil {
		details = append(details, "being deleted since "+since.UTC().Format(time.RFC3339))
	}
	if finalizers := live.GetFinalizers(); len(finalizers) > 0 {
		details = append(details, "finalizers "+strings.Join(finalizers, ", "))
	}
	if len(details) == 0 {
		return key.String()
	}
	return fmt.Sprintf("%s (%s)", key, strings.Join(details, "; "))
}
