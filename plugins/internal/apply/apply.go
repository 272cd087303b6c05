package apply

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/plugins/internal/targeterror"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// FieldManager is the name under which objects are written.
	FieldManager = "pergola"
	// concurrency bounds how many objects are worked on at once, per call.
	concurrency = 8
	// maxSteps bounds the requests for one object when others change, create or delete it at the same time.
	maxSteps = 8
)

// Recorded returns what the ledger held about an object before the call: one that it did not hold is created without being
// looked for. It is called from several goroutines.
type Recorded func(object.Key) (e managedresource.ManagedResourceStatus, ok bool)

// Applied is an object that is as its manifest says.
type Applied struct {
	*Item
	// Live is the object as the API server returned it last.
	Live *unstructured.Unstructured
	// Memo is for the ledger.
	Memo string
}

// Result is what came of a plan.
type Result struct {
	// Applied are the objects that are as their manifests say, also if others failed.
	Applied []Applied
	// Waiting says why the plan cannot be completed yet; call again later. Empty if it is complete or failed.
	Waiting []string
}

// Run applies a plan, stage by stage, as far as it gets. The error holds those of all objects of the stage in which it
// ended; what was applied until then, and beside it, is in the result all the same. Run does not wait: it ends with
// Result.Waiting.
func Run(ctx context.Context, client *targetclient.Client, plan *Plan, recorded Recorded) (Result, error) {
	var result Result
	for _, stage := range plan.stages {
		outcomes := applyStage(ctx, client, stage, recorded)
		var errs []error
		for i, o := range outcomes {
			switch {
			case o.err != nil:
				errs = append(errs, fmt.Errorf("apply %s: %w", stage[i].Key, targeterror.Explain(client.Host, o.err)))
			case o.waiting != "":
				result.Waiting = append(result.Waiting, o.waiting)
			default:
				result.Applied = append(result.Applied, Applied{Item: stage[i], Live: o.live, Memo: memo(stage[i], o.live)})
				result.Waiting = append(result.Waiting, notEstablished(o.live)...)
			}
		}
		if err := targeterror.Collect(errs); err != nil || len(result.Waiting) > 0 {
			return result, err
		}
	}
	return result, nil
}

// outcome is what came of one object: exactly one of the fields is set.
type outcome struct {
	live    *unstructured.Unstructured
	waiting string
	err     error
}

func applyStage(ctx context.Context, client *targetclient.Client, stage []*Item, recorded Recorded) []outcome {
	outcomes := make([]outcome, len(stage))
	var workers errgroup.Group
	workers.SetLimit(concurrency)
	for i, item := range stage {
		workers.Go(func() error {
			outcomes[i] = applyItem(ctx, client, item, recorded)
			return nil
		})
	}
	_ = workers.Wait() // the errors are in the outcomes
	return outcomes
}

// applyItem goes from what is believed about an object to what is true of it. Each step is one request; its answer either ends
// the matter or corrects the belief, which somebody else may have made wrong in the meantime.
func applyItem(ctx context.Context, client *targetclient.Client, item *Item, recorded Recorded) outcome {
	entry, believed := recorded(item.Key)
	objects := client.Objects(item.Mapping, item.Key.Namespace)
	var lastErr error
	for range maxSteps {
		if !believed {
			created, err := objects.Create(ctx, item.Desired, metav1.CreateOptions{FieldManager: FieldManager})
			if apierrors.IsAlreadyExists(err) {
				believed, lastErr = true, err
				continue
			}
			if apierrors.IsNotFound(err) && !isAbout(err, "namespaces") {
				return notServed(ctx, client, item, err)
			}
			return outcome{live: created, err: err}
		}
		live, err := objects.Get(ctx, item.Key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			believed, lastErr = false, err
			continue
		}
		if err != nil {
			return outcome{err: err}
		}
		if live.GetDeletionTimestamp() != nil {
			return outcome{waiting: fmt.Sprintf("%s, which somebody has deleted, to be gone before it is created again", item.Key)}
		}
		if entry.Applied != "" && entry.Applied == memo(item, live) {
			return outcome{live: live}
		}
		updated, err := objects.Update(ctx, replacement(item.Desired, live), metav1.UpdateOptions{FieldManager: FieldManager})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			lastErr = err
			continue
		}
		return outcome{live: updated, err: err}
	}
	return outcome{err: fmt.Errorf("others keep changing it at the same time: %w", lastErr)}
}

// isAbout tells whether an error names this resource as its cause.
func isAbout(err error, resource string) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == resource
}

// notServed deals with a resource that the API server does not know although it should. Just after a
// CustomResourceDefinition was established that passes; otherwise what the client knows of kinds is outdated.
func notServed(ctx context.Context, client *targetclient.Client, item *Item, err error) outcome {
	client.Forget(ctx)
	if item.definedHere {
		return outcome{waiting: fmt.Sprintf("the API server to serve the kind of %s", item.Key)}
	}
	return outcome{err: err}
}

// notEstablished says what is missing for a CustomResourceDefinition to be usable. It is empty for one that is, and for every
// other object.
func notEstablished(o *unstructured.Unstructured) []string {
	key := object.KeyOf(o)
	if !object.IsCRD(key.Group, key.Kind) {
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	text := fmt.Sprintf("%s to be established", key)
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok {
			continue
		}
		if condition["type"] == "Established" && condition["status"] == "True" {
			return nil
		}
		if condition["type"] == "NamesAccepted" && condition["status"] == "False" {
			text = fmt.Sprintf("%s: %v", text, condition["message"])
		}
	}
	return []string{text}
}
