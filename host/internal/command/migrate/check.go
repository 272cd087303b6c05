package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/host/internal/command/local"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// atOnce is how many items are compared at the same time.
	atOnce = 8
	// maxDetails bounds the details of an item in the text.
	maxDetails = 5
)

// verdict says what the first job of an item would do.
type verdict string

const (
	// asItIs: its first job writes labels and annotations alone.
	asItIs verdict = "AsItIs"
	// notCompared: the plugin cannot compare; the provider configuration is valid.
	notCompared verdict = "NotCompared"
	// notServed: no plugin serves its type, and its deployer of today stays.
	notServed verdict = "NotServed"
	// differs: its first job writes labels and annotations alone, but something works differently from then on.
	differs verdict = "Differs"
	// changes: its first job changes objects.
	changes verdict = "Changes"
	// fails: its first job would fail.
	fails verdict = "Fails"
	// busy: a job or a deletion is under way.
	busy verdict = "Busy"
)

// finding is the verdict on an item.
type finding struct {
	// DeployItem is the namespace and the name of the item.
	DeployItem string                  `json:"deployItem"`
	Type       v1alpha1.DeployItemType `json:"type"`
	Verdict    verdict                 `json:"verdict"`
	// Details are the changes and the differences, or the reason of another verdict.
	Details []string `json:"details,omitempty"`
}

// checker checks items by calls of plugins. It writes nothing.
type checker struct {
	plugins  *local.Plugins
	resolver *target.Resolver
}

// check returns the verdicts in the order of the items. The error is the end of ctx.
func (c *checker) check(ctx context.Context, items []v1alpha1.DeployItem) ([]finding, error) {
	findings := make([]finding, len(items))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range items {
		group.Go(func() error {
			findings[i] = c.finding(ctx, &items[i])
			return context.Cause(ctx)
		})
	}
	return findings, group.Wait()
}

func (c *checker) finding(ctx context.Context, item *v1alpha1.DeployItem) finding {
	f := finding{DeployItem: item.Namespace + "/" + item.Name, Type: item.Spec.Type}
	if why := unfinished(item); why != "" {
		f.Verdict, f.Details = busy, []string{why}
		return f
	}
	found, err := c.plugins.Diff(ctx, c.resolver, item)
	f.Verdict, f.Details = judge(found, err)
	if more := differences(item); len(more) > 0 && f.Verdict != notServed && f.Verdict != fails {
		f.Details = append(f.Details, more...)
		if f.Verdict != changes {
			f.Verdict = differs
		}
	}
	return f
}

// unfinished returns why the item cannot change hands now; empty if it can.
func unfinished(item *v1alpha1.DeployItem) string {
	switch {
	case item.DeletionTimestamp != nil:
		return "it is being deleted; wait until it is gone"
	case item.Status.JobID != item.Status.JobIDFinished:
		return fmt.Sprintf("the job %s is under way; wait for its end", item.Status.JobID)
	default:
		return ""
	}
}

// judge returns the verdict on the comparison of an item, with its details.
func judge(found []sdk.Change, err error) (verdict, []string) {
	switch {
	case errors.Is(err, local.ErrCannotCompare):
		return notCompared, nil
	case errors.Is(err, local.ErrNotServed):
		return notServed, strings.Split(err.Error(), "\n")
	case err != nil:
		return fails, strings.Split(err.Error(), "\n")
	}
	result, details := asItIs, []string(nil)
	for _, c := range found {
		if c.Waits != "" {
			details = append(details, c.Object+": the job waits for it: "+c.Waits)
			if result == asItIs {
				result = differs
			}
		}
		if isMark(c) || c.Waits != "" && c.Action == sdk.ActionKeep {
			continue
		}
		detail := string(c.Action) + " " + c.Object
		if c.Note != "" {
			detail += ": " + c.Note
		}
		details = append(details, detail)
		if c.Action == sdk.ActionFail {
			result = fails
		} else if result != fails {
			result = changes
		}
	}
	return result, details
}

// isMark reports whether a change writes nothing but labels and annotations of deployers, such as the take-over of an
// object or a release.
func isMark(c sdk.Change) bool {
	if c.Action != sdk.ActionUpdate {
		return false
	}
	before, beforeErr := withoutMarks(c.Before)
	after, afterErr := withoutMarks(c.After)
	return beforeErr == nil && afterErr == nil && reflect.DeepEqual(before, after)
}

// withoutMarks returns the content of an object as users see it.
func withoutMarks(document json.RawMessage) (map[string]any, error) {
	if document == nil {
		return nil, nil //nolint:nilnil // no object has no content
	}
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(document, &o.Object); err != nil {
		return nil, fmt.Errorf("read the state of an object: %w", err)
	}
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	for _, field := range []string{"labels", "annotations"} {
		all, _, _ := unstructured.NestedMap(o.Object, "metadata", field)
		for key := range all {
			if domain, _, _ := strings.Cut(key, "/"); isOurs(domain) {
				delete(all, key)
			}
		}
		if len(all) == 0 {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		} else if err := unstructured.SetNestedMap(o.Object, all, "metadata", field); err != nil {
			return nil, fmt.Errorf("read the %s of an object: %w", field, err)
		}
	}
	return o.Object, nil
}

// isOurs reports whether the labels and annotations of a domain are those of deployers.
func isOurs(domain string) bool {
	for _, own := range []string{"pergola.dev", "deployer.landscaper.gardener.cloud"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return true
		}
	}
	return false
}
