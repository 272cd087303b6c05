package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// interferenceTest is a host with one item between a Landscaper, users, a deployer and an API server that all do as
// they like.
type interferenceTest struct {
	*bench
	history
	t *rapid.T
	// calm: from now on nothing disturbs the job.
	calm bool
	// picked is the job that the host has picked up last.
	picked string
	// set are all jobs that the item has had.
	set []string
	// deleted: the deployer has deleted what the item has deployed, and was not called again since.
	deleted bool
	// refused: a hook of the reconcile that goes on has ended it, held its job up, or failed.
	refused bool
	// foreign are items that are none of the host's, with their versions.
	foreign map[string]*v1alpha1.DeployItem
}

// history is what has happened in a case of a property, to be printed when it fails.
type history struct {
	t     *rapid.T
	lines []string
}

func (s *history) note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *history) fail(format string, args ...any) {
	s.t.Fatalf(format+"\nhistory:\n%s", append(args, strings.Join(s.lines, "\n"))...)
}

// interfere is what Landscaper or a user does.
func (c *interferenceTest) interfere() {
	item := c.read()
	if item == nil || c.calm {
		return
	}
	what := rapid.SampledFrom(
		[]string{"job", "rude job", "job before", "interruption", "label", "spec", "operation", "deletion", "leave behind"},
	).Draw(c.t, "interference")
	c.note("%s; before: %s", what, describe(item))
	switch what {
	case "job":
		c.setJob()
	case "rude job":
		c.patchStatus(c.item, fmt.Sprintf(`{"jobID":"rude-%d"}`, len(c.lines)))
	case "job before":
		if len(c.set) > 0 {
			c.patchStatus(c.item, fmt.Sprintf(`{"jobID":%q}`, rapid.SampledFrom(c.set).Draw(c.t, "job")))
		}
	case "interruption":
		if item.Status.JobID == "" {
			return
		}
		c.patchStatus(c.item, fmt.Sprintf(`{"jobIDFinished":%q,"phase":"Failed"}`, item.Status.JobID))
	case "label":
		c.touch(c.item)
	case "spec":
		c.patch(c.item, fmt.Sprintf(`{"spec":{"updateOnChangeOnly":%t}}`, !item.Spec.UpdateOnChangeOnly))
	case "operation":
		c.annotate(c.item, v1alpha1.OperationAnnotation,
			rapid.SampledFrom(
				[]string{"reconcile", "test-reconcile", "force-reconcile", "abort", "dance"},
			).Draw(c.t, "operation"))
	case "deletion":
		c.remove(c.item)
	case "leave behind":
		c.annotate(c.item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	}
	c.memory.Changed(client.ObjectKeyFromObject(c.item))
}

// deploy is what the deployer does. In the middle of its call anything may happen.
func (c *interferenceTest) deploy(
	ctx context.Context, op plugin.Operation, o plugin.Observer,
) (*plugin.Outcome, error) {
	c.note("%s", c.calls[len(c.calls)-1])
	if !c.pending {
		c.mustBePickedUp(op)
	}
	if c.refused {
		c.fail("the plugin is called although a hook has refused")
	}
	c.deleted = false
	if !c.calm && rapid.Bool().Draw(c.t, "in the middle") {
		c.interfere()
	}
	if rapid.Bool().Draw(c.t, "saves") {
		document := rapid.SampledFrom([]string{providerStatus, ""}).Draw(c.t, "document")
		if err := o.SaveProviderStatus(ctx, []byte(document)); err != nil {
			return fails(err.Error())
		}
		c.mustBePickedUp(op)
	}
	outcomes := []string{"success", "wait", "error", "failure", "crash", "late"}
	if c.calm {
		outcomes = outcomes[:1]
	}
	outcome := rapid.SampledFrom(outcomes).Draw(c.t, "outcome")
	c.note("outcome %s", outcome)
	switch outcome {
	case "wait":
		return waits("something")
	case "error":
		return fails("Refused")
	case "failure":
		return &plugin.Outcome{
			Errors: []plugin.Error{{Message: "no", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}}},
		}, nil
	case "crash":
		return nil, plugin.ErrCrashed
	case "late":
		return nil, context.DeadlineExceeded
	default:
		c.deleted = op == plugin.Delete
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
	}
}

// mustBePickedUp holds a change that the deployer may make now against the pick-up.
func (c *interferenceTest) mustBePickedUp(op plugin.Operation) {
	if c.picked != c.calls[len(c.calls)-1][len(op)+1:] {
		c.fail("%s, but %q was picked up last", c.calls[len(c.calls)-1], c.picked)
	}
}

// hooks are those of all types. Before each of them anything may happen.
func (c *interferenceTest) hooks(_ context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error) {
	hookType, item := call.Type, call.DeployItem
	if hookType == sdkhook.Start {
		c.refused = false
	} else if item.UID != c.item.UID { // nothing that is none of the host's becomes so by a hook without an opinion
		return nil, nil
	}
	if c.calm {
		return nil, nil
	}
	if rapid.IntRange(0, 9).Draw(c.t, "meanwhile") == 0 {
		c.interfere()
	}
	opinion := rapid.SampledFrom(
		[]string{"none", "none", "none", "abort", "go on", "error", "crash", "failure", "later"},
	).Draw(c.t, string(hookType))
	if opinion != "none" {
		c.note("hook %s: %s", hookType, opinion)
	}
	refused := hookType != sdkhook.ShouldReconcile && hookType != sdkhook.End
	switch opinion {
	case "abort":
		c.refused = c.refused || refused
		return []plugin.HookOutcome{
			{Result: &sdkhook.Result{AbortReconcile: true, Requeue: rapid.Bool().Draw(c.t, "requeue")}},
		}, nil
	case "go on":
		return []plugin.HookOutcome{{Result: &sdkhook.Result{}}}, nil
	case "later":
		return []plugin.HookOutcome{
			{Result: &sdkhook.Result{RequeueAfter: time.Minute, AbortReconcile: hookType == sdkhook.ShouldReconcile}},
		}, nil
	case "none":
		return nil, nil
	}
	c.refused = c.refused || refused
	switch opinion {
	case "crash":
		return nil, plugin.ErrCrashed
	case "failure":
		return []plugin.HookOutcome{
			{Error: &plugin.Error{Message: "no", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}}},
		}, nil
	default:
		return []plugin.HookOutcome{{Error: &plugin.Error{Message: "not now"}}}, nil
	}
}

// written stands between the host and the API server: each write may fail, or succeed with its answer lost; each that
// succeeds is checked.
func (c *interferenceTest) written(_ int, do func() error) error {
	trouble := "none"
	if !c.calm {
		trouble = rapid.SampledFrom(
			[]string{"none", "none", "none", "API error", "lost answer", "conflict"},
		).Draw(c.t, "trouble")
	}
	unavailable := apierrors.NewInternalError(errors.New("etcd has no leader"))
	switch trouble {
	case "API error":
		return unavailable
	case "conflict":
		if c.read() != nil {
			c.touch(c.item)
		}
	}
	before := c.read()
	err := do()
	if before == nil { // the write was for another item, or comes too late
		return err
	}
	if err == nil {
		c.check(before, c.read())
	}
	if err == nil && trouble == "lost answer" {
		return unavailable
	}
	return err
}

// check holds the invariants against a write of the host.
func (c *interferenceTest) check(before, after *v1alpha1.DeployItem) {
	if hadFinalizer := slices.Contains(before.Finalizers, v1alpha1.Finalizer); hadFinalizer &&
		(after == nil || !slices.Contains(after.Finalizers, v1alpha1.Finalizer)) {
		c.note("finalizer removed")
		if !c.deleted && before.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] != "true" {
			c.fail("the finalizer went without a successful deletion")
		}
	}
	if after == nil || cmp.Equal(before.Status, after.Status) {
		return
	}
	c.note("host wrote %s", describe(after))
	status := after.Status
	c.set = append(c.set, status.JobID)
	repairs := !before.Status.Phase.IsFinal() && status.Phase.IsFinal()
	if settled := before.DeepCopy(); !repairs && before.Status.JobID == before.Status.JobIDFinished &&
		status.JobID == before.Status.JobID {
		settled.Status.Conditions, settled.Status.ProviderStatus = status.Conditions, status.ProviderStatus
		if !cmp.Equal(settled.Status, status) {
			c.fail("the host wrote to a job that was finished")
		}
		return
	}
	if repairs && status.JobID == before.Status.JobID && status.JobID == status.JobIDFinished &&
		before.Status.JobIDFinished == status.JobID {
		return // a finished job was put in the place of one under way
	}
	if status.Phase.IsFinal() != (status.JobID == status.JobIDFinished) {
		c.fail("phase %s, but the job is %s and the one finished %s", status.Phase, status.JobID, status.JobIDFinished)
	}
	if status.JobID != before.Status.JobID && before.Status.JobID != before.Status.JobIDFinished {
		c.fail("the host replaced job %s, which was under way", before.Status.JobID)
	}
	named := slices.ContainsFunc(status.Conditions, func(cond v1alpha1.Condition) bool {
		return cond.Type == contract.ConditionPickedUp && cond.Message == status.JobID
	})
	if !named {
		c.fail("the host wrote to a job that it had not picked up")
	}
	c.picked = status.JobID
}

// restart is a host that was killed, and another one that knows nothing.
func (c *interferenceTest) restart() {
	c.note("host restarts")
	c.bench.set(func(p *parts) { p.restart() })
}

// freeSlots frees all slots.
func (c *interferenceTest) freeSlots() {
	c.bench.set(func(p *parts) { p.slots = slots.New(1, 0, time.Now) })
}

// checkForeign has the host reconcile the items that are none of its own.
func (c *interferenceTest) checkForeign() {
	for name, item := range c.foreign {
		own := c.item
		c.item = item
		c.reconcile(c.bench.t.Context())
		c.item = own
		if fresh := c.api.read(item); fresh.ResourceVersion != item.ResourceVersion {
			c.fail("the host wrote to an item %s", name)
		}
	}
}

// addForeign adds items that the host must not touch, each with a job.
func (c *interferenceTest) addForeign() {
	for _, name := range []string{"here", "elsewhere"} {
		c.newTarget(c.item.Namespace, name)
	}
	c.selects("here")
	withTarget := func(name string) func(*v1alpha1.DeployItem) {
		return func(i *v1alpha1.DeployItem) {
			i.Spec.Target = &v1alpha1.ObjectReference{Name: name, Namespace: i.Namespace}
		}
	}
	for name, modify := range map[string]func(*v1alpha1.DeployItem){
		"of-another-type":     func(i *v1alpha1.DeployItem) { i.Spec.Type = "test.pergola.dev/other" },
		"of-an-unselected":    withTarget("elsewhere"),
		"of-a-missing-target": withTarget("missing"),
		"with-lying-annotation": func(i *v1alpha1.DeployItem) {
			withTarget("elsewhere")(i)
			i.Annotations[v1alpha1.DeployerTargetNameAnnotation] = "here"
		},
	} {
		item := newDeployItem(c.item.Namespace, name, modify)
		c.create(item)
		c.api.setJob(item, c.clock.Now())
		c.foreign[name] = c.api.read(item)
	}
}

// TestInvariantsHoldInAnyOrder: invariants 1, 2, 4 and 5 of docs/architecture.md.
// Rule (architecture.md#what-always-holds): 1. The phase becomes final in the same write in which `jobIDFinished`
// becomes `jobID`.
// Rule (architecture.md#what-always-holds): 2. `jobIDFinished` only ever takes a value that `jobID` had at a pick-up.
// Rule (architecture.md#what-always-holds): 4. An item of another type, or of a Target that is not selected, is never
// written.
// Rule (architecture.md#what-always-holds): 5. The finalizer goes only after a successful deletion, or with
// `delete-without-uninstall`.
func TestInvariantsHoldInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// Most of what happens with a deletion happens to an item that was deployed before.
		deployed := rapid.Bool().Draw(rt, "deployed")
		c := &interferenceTest{bench: newBench(t, nil, func(i *v1alpha1.DeployItem) {
			i.Spec.UpdateOnChangeOnly = rapid.Bool().Draw(rt, "updateOnChangeOnly")
			i.Spec.Timeout = rapid.SampledFrom([]v1alpha1.Duration{"", "none", "1s", "1h"}).Draw(rt, "timeout")
			if deployed {
				i.Finalizers = []string{v1alpha1.Finalizer}
			}
		}), history: history{t: rt}, t: rt, foreign: map[string]*v1alpha1.DeployItem{}}
		c.plugin.Capabilities = plugin.Capabilities{
			Abort: rapid.Bool().Draw(rt, "Abort"), ForceReconcile: true, LatePickUp: rapid.Bool().Draw(rt, "LatePickUp"),
		}
		c.answer, c.write = c.deploy, c.written
		if rapid.Bool().Draw(rt, "hooks") {
			c.plugin.OnHooks = c.hooks
			for _, hookType := range sdkhook.Types() {
				c.plugin.Capabilities.HookTypes = append(c.plugin.Capabilities.HookTypes, string(hookType))
			}
		}
		c.addForeign()
		if deployed {
			c.remove(c.item)
			c.setJob()
		}
		rt.Repeat(map[string]func(*rapid.T){
			"interfere":       func(*rapid.T) { c.interfere() },
			"interfere again": func(*rapid.T) { c.interfere() },
			"reconcile":       func(*rapid.T) { c.reconcile(t.Context()) },
			"reconcile again": func(*rapid.T) { c.reconcile(t.Context()) },
			"when it is due":  func(*rapid.T) { c.clock.Step(c.reconcile(t.Context())) },
			"time": func(rt *rapid.T) {
				c.clock.Step(time.Duration(rapid.IntRange(0, 120).Draw(rt, "seconds")) * time.Second)
			},
			"clock is set": func(rt *rapid.T) {
				c.clock.SetTime(c.clock.Now().Add(time.Duration(rapid.IntRange(-3600, 3600).Draw(rt, "seconds")) * time.Second))
			},
			"restart":   func(*rapid.T) { c.restart() },
			"no worker": func(*rapid.T) { c.slots.Acquire(anotherItem, slots.Share{}, slots.Running) },
			"worker":    func(*rapid.T) { c.freeSlots() },
		})
		c.calm = true
		c.freeSlots()
		c.clock.Step(time.Hour)
		c.checkForeign()
		if item := c.drive(); item != nil && item.Status.JobID != item.Status.JobIDFinished {
			c.fail("the job does not end: %s", describe(item))
		}
		c.errs = nil
	})
}
