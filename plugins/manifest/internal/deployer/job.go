package deployer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/managed"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/internal/remove"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// The steps of a job, as users see them in its progress and its errors.
const (
	stepApply     = "Apply"
	stepCleanUp   = "CleanUp"
	stepReadiness = "Readiness"
	stepExport    = "Export"
	stepDelete    = "Delete"
)

// reasonFailed is given to the error about objects that cannot become ready any more by themselves.
const reasonFailed = "ObjectFailed"

// mostListed bounds how many objects are named in a message about what is being waited for.
const mostListed = 5

// job is one call of the deployer. Its methods are the steps; each returns a response if the job cannot go on to the next one
// in this call, and nil if it can.
type job struct {
	req     *sdk.Request
	client  *targetclient.Client
	account *account
	// began is when the call began.
	began time.Time
}

// apply notes the objects of the plan, saves the note, applies them and returns the live objects.
func (j *job) apply(ctx context.Context, plan *apply.Plan) ([]*unstructured.Unstructured, *sdk.Response, error) {
	ledger := j.account.ledger
	// What was known before decides whether an object is looked for or created at once.
	before := managed.NewLedger(ledger.Entries())
	for _, item := range plan.Items() {
		ledger.Expect(item.Reference(), managedresource.PolicyManage, item.Stale)
	}
	if err := j.account.save(ctx); err != nil {
		return nil, nil, err
	}
	j.req.Progress(stepApply, fmt.Sprintf("applying %s", plan))
	result, err := apply.Run(ctx, j.client, plan, before.Get)
	live := make([]*unstructured.Unstructured, 0, len(result.Applied))
	for _, applied := range result.Applied {
		reference := applied.Reference()
		reference.UID = applied.Live.GetUID()
		ledger.Applied(reference, applied.Memo)
		live = append(live, applied.Live)
	}
	if err != nil {
		return nil, j.account.response(), during(stepApply, err)
	}
	if len(result.Waiting) > 0 {
		return nil, j.wait(stepApply, "", result.Waiting), nil
	}
	return live, nil, nil
}

// cleanUp deletes the objects that are managed but not in the plan any more.
func (j *job) cleanUp(ctx context.Context, plan *apply.Plan) (*sdk.Response, error) {
	orphans := j.account.ledger.Without(plan.Keys())
	if len(orphans) == 0 {
		return nil, nil //nolint:nilnil // see job
	}
	return j.remove(ctx, stepCleanUp, orphans)
}

// remove deletes managed objects until they are gone.
func (j *job) remove(ctx context.Context, step string, entries []managedresource.ManagedResourceStatus) (*sdk.Response, error) {
	deletable, kept, err := byPolicy(entries)
	if err != nil {
		return j.account.response(), during(step, err)
	}
	j.req.Progress(step, fmt.Sprintf("deleting objects: %d", len(deletable)))
	result, err := remove.Run(ctx, j.client, deletable, isLabelledFor(j.req.DeployItem.Name), j.began)
	for _, key := range append(result.Gone, kept...) {
		j.account.ledger.Gone(key)
	}
	if err != nil {
		return j.account.response(), during(step, err)
	}
	if len(result.Waiting) > 0 {
		return j.wait(step, "the deletion of ", result.Waiting), nil
	}
	return nil, nil //nolint:nilnil // see job
}

// checkReadiness judges the objects as they were just applied or read.
func (j *job) checkReadiness(live []*unstructured.Unstructured) (*sdk.Response, error) {
	verdict := readiness.Check(live)
	if len(verdict.Failed) > 0 {
		// No code: somebody may repair the object, or its controller may try again, while the job has time.
		return j.account.response(), during(stepReadiness, &sdk.Error{
			Reason: reasonFailed,
			Err:    errors.New(object.Enumerate(verdict.Failed, "; ", mostListed)),
		})
	}
	if len(verdict.Waiting) > 0 {
		return j.wait(stepReadiness, "", verdict.Waiting), nil
	}
	return nil, nil //nolint:nilnil // see job
}

// readExports reads the values to export.
func (j *job) readExports(
	ctx context.Context, values []export.Value, live []*unstructured.Unstructured,
) (map[string]any, *sdk.Response, error) {
	if len(values) == 0 {
		return nil, nil, nil
	}
	j.req.Progress(stepExport, fmt.Sprintf("reading values to export: %d", len(values)))
	result, err := export.Read(ctx, j.client, values, live, j.began)
	if err != nil {
		return nil, j.account.response(), during(stepExport, err)
	}
	if len(result.Waiting) > 0 {
		return nil, j.wait(stepExport, "", result.Waiting), nil
	}
	return result.Exports, nil, nil
}

// wait returns the response of a job that goes on, and tells what it waits for: prefix and things without "waiting for", which
// the host says itself.
func (j *job) wait(step, prefix string, things []string) *sdk.Response {
	what := prefix + object.Enumerate(things, "; ", mostListed)
	j.req.Progress(step, "waiting for "+what)
	res := sdk.WaitFor(what, pollAfter(j.req, time.Now()))
	res.ProviderStatus = j.account.unsaved()
	return res
}

// pollAfter grows with the age of the job: most things that are waited for come within seconds or take minutes.
func pollAfter(req *sdk.Request, now time.Time) time.Duration {
	const shortest, longest = 250 * time.Millisecond, 5 * time.Second
	times := req.DeployItem.Status.TransitionTimes
	if times == nil || times.InitTime.IsZero() {
		return shortest
	}
	age := now.Sub(times.InitTime.Time)
	return min(max(age/4, shortest), longest)
}
