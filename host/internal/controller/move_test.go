package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fleet is a plugin that deploys an item to clusters. Each has the name of its Target.
type fleet struct {
	*bench
	// left is what is deployed, by cluster.
	left map[string]bool
	// did are the operations with an effect, in their order.
	did []string
	// fails is an operation that fails.
	fails string
}

// newFleet returns a bench whose item was deployed to the cluster old, and has the Target new since.
func newFleet(t *testing.T, standalone bool, annotations ...string) *fleet {
	t.Helper()
	f := &fleet{left: map[string]bool{}}
	f.bench = newBench(t, nil, withTargetNamed("old"), withoutTimeout)
	for _, name := range []string{"old", "new", "other"} {
		f.newTarget(f.item.Namespace, name)
	}
	f.plugin.OnCall = f.call
	f.plugin.Capabilities.LatePickUp = true
	f.set(func(p *parts) { p.options.Standalone = standalone })
	f.setJob()
	f.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	f.did = nil
	f.patch(f.item, `{"spec":{"target":{"name":"new"}}}`)
	for i := 0; i < len(annotations); i += 2 {
		f.annotate(f.item, annotations[i], annotations[i+1])
	}
	f.setJob()
	return f
}

// call implements plugin.Plugin: each operation has two calls.
func (f *fleet) call(
	ctx context.Context, op plugin.Operation, c plugin.Call, o plugin.Observer,
) (*plugin.Outcome, error) {
	const document = `{"apiVersion":"test.pergola.dev/v1","kind":"Status","cluster":%q,"done":%t}`
	cluster, does := c.Target.Target.Name, string(op)+" on "+c.Target.Target.Name
	var saved struct {
		Kind, Cluster string
		Done          bool
	}
	if raw := rawStatus(c.DeployItem); raw != "" {
		if err := json.Unmarshal([]byte(raw), &saved); err != nil || saved.Kind != "Status" {
			f.t.Errorf("%s: called with the provider status %s", does, raw)
		}
	}
	if target, _ := contract.TargetOfItem(c.DeployItem); target != cluster {
		f.t.Errorf("%s: called with the item of the Target %s", does, target)
	}
	switch {
	case saved.Cluster != "" && saved.Cluster != cluster:
		return &plugin.Outcome{Errors: []plugin.Error{{
			Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Reason: sdk.ReasonTargetChanged, Message: cluster + " is another cluster than " + saved.Cluster,
		}}}, nil
	case does == f.fails:
		return failsFor(v1alpha1.ErrorNoRetry, "Refused")
	case op == plugin.Delete && f.left[cluster]:
		delete(f.left, cluster)
		f.did = append(f.did, does)
		return waits("the end")
	case op == plugin.Delete:
		return &plugin.Outcome{
			Succeeded: &plugin.Succeeded{}, ProviderStatus: []byte(`{"apiVersion":"test.pergola.dev/v1","kind":"Status"}`),
		}, nil
	case saved.Done:
		return succeeded()
	}
	if err := o.SaveProviderStatus(ctx, fmt.Appendf(nil, document, cluster, false)); err != nil {
		return fails(err.Error())
	}
	if !f.left[cluster] {
		f.left[cluster] = true
		f.did = append(f.did, does)
	}
	outcome, err := waits("readiness")
	outcome.ProviderStatus = fmt.Appendf(nil, document, cluster, true)
	return outcome, err
}

func (f *fleet) expect(what string, left, did []string) {
	f.t.Helper()
	if got := slices.Sorted(maps.Keys(f.left)); !slices.Equal(got, left) || !slices.Equal(f.did, did) {
		f.t.Errorf("%s: expected %v after %v, but found %v after %v", what, left, did, got, f.did)
	}
}

var (
	moveFrom    = []string{move.FromAnnotation, "old"}
	deployFirst = append(slices.Clone(moveFrom), move.OrderAnnotation, string(move.DeployFirst))
)

// Rule (deploy-items.md#moving): An item moves to the cluster of its new Target in the order of the user, and a crash
// at any write changes nothing about that.
func TestMove(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations []string
		deleted     bool
		left, did   []string
	}{
		"remove first": {moveFrom, false, []string{"new"}, []string{"Delete on old", "Reconcile on new"}},
		"deploy first": {deployFirst, false, []string{"new"}, []string{"Reconcile on new", "Delete on old"}},
		// Rule (deploy-items.md#moving): A deletion removes from the old cluster, too.
		"deleted": {deployFirst, true, nil, []string{"Delete on old"}},
	} {
		t.Run(name, func(t *testing.T) {
			for crash := 0; ; crash++ {
				f := newFleet(t, true, tc.annotations...)
				if tc.deleted {
					f.remove(f.item)
				}
				at, crashed := f.n+(crash+1)/2, false
				f.write = func(n int, do func() error) error {
					if crash == 0 || n != at {
						return do()
					}
					crashed = true
					f.set(func(p *parts) { p.restart() })
					if crash%2 == 0 { // after the write, but before its answer
						_ = do()
					}
					return errors.New("the host is gone")
				}
				item := f.drive()
				if (item == nil) != tc.deleted || item != nil && item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
					t.Fatalf("crash %d: found %s (%v)", crash, describe(item), f.errs)
				}
				f.expect(fmt.Sprintf("crash %d", crash), tc.left, tc.did)
				if item != nil && (move.From(item) != "" || !strings.Contains(rawStatus(item), `"cluster":"new"`)) {
					t.Errorf("crash %d: the status still has %s", crash, rawStatus(item))
				}
				if crash > 0 && !crashed {
					if crash < 10 {
						t.Errorf("there are only %d writes", crash/2)
					}
					return
				}
			}
		})
	}
}

// TestNoMove: the item fails as before, and its way to a move is in the error if there is one.
func TestNoMove(t *testing.T) {
	for name, tc := range map[string]struct {
		standalone   bool
		annotations  []string
		reason, says string
	}{
		// Rule (deploy-items.md#moving): Without the annotation nothing moves, and the error names it.
		"not asked for": {true, nil, "TargetChanged", "host.pergola.dev/move-from"},
		// Rule (deploy-items.md#moving): Beside a Landscaper nothing moves.
		"beside a Landscaper": {false, moveFrom, "TargetChanged", "new is another cluster than old"},
		"an order that there is not": {
			true, append(slices.Clone(moveFrom), move.OrderAnnotation, "first"), "TargetChanged",
			`expected remove-first or deploy-first, but found "first"`,
		},
		"from the Target of the item": {
			true, []string{move.FromAnnotation, "new"}, "TargetChanged", "name another Target",
		},
		"from no Target": {true, []string{move.FromAnnotation, "nowhere"}, "NoTargetFound", "there is no such Target"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, tc.standalone, tc.annotations...)
			last := f.driveTo(v1alpha1.DeployItemPhaseFailed).Status.LastError
			if last.Reason != tc.reason || !strings.Contains(last.Message, tc.says) ||
				!tc.standalone && strings.Contains(last.Message, "move") {
				t.Errorf("expected %s with %q, but found %+v", tc.reason, tc.says, last)
			}
			f.expect("afterwards", []string{"old"}, nil)
			if !strings.Contains(rawStatus(f.read()), `"kind":"Status"`) {
				t.Errorf("the provider status has changed: %s", rawStatus(f.read()))
			}
		})
	}
}

// Rule (deploy-items.md#moving): An annotation is for one move.
func TestAnnotationIsForOneMove(t *testing.T) {
	f := newFleet(t, true, moveFrom...)
	f.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	f.patch(f.item, `{"spec":{"target":{"name":"other"}}}`)
	f.setJob()
	f.driveTo(v1alpha1.DeployItemPhaseFailed)
	f.annotate(f.item, move.FromAnnotation, "new")
	f.setJob()
	f.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	f.expect("after a second move", []string{"other"},
		[]string{"Delete on old", "Reconcile on new", "Delete on new", "Reconcile on other"})
}

// Rule (deploy-items.md#moving): A failed step of a move is repeated by the next job, and a wrong name can be
// corrected.
func TestMoveGoesOn(t *testing.T) {
	f := newFleet(t, true, deployFirst...)
	f.annotate(f.item, move.FromAnnotation, "other")
	item := f.driveTo(v1alpha1.DeployItemPhaseFailed)
	f.expect("with a wrong name", []string{"new", "old"}, []string{"Reconcile on new"})
	if move.From(item) != "other" || !strings.Contains(item.Status.LastError.Message, `removal from the Target "other"`) {
		t.Errorf("found %s, moving from %q", describe(item), move.From(item))
	}
	f.annotate(f.item, move.FromAnnotation, "old")
	f.fails = "Delete on old"
	f.setJob()
	if item := f.driveTo(v1alpha1.DeployItemPhaseFailed); item.Status.LastError.Reason != "Refused" {
		t.Errorf("found %s", describe(item))
	}
	f.fails = ""
	f.patch(f.item, `{"metadata":{"annotations":{"host.pergola.dev/move-from":null}}}`)
	f.setJob()
	f.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	f.expect("at the end", []string{"new"}, []string{"Reconcile on new", "Delete on old"})
}

// Rule (deploy-items.md#moving): A deletion during a call for the new cluster removes from both.
func TestDeletedDuringMove(t *testing.T) {
	f := newFleet(t, true, deployFirst...)
	f.plugin.OnCall = func(
		ctx context.Context, op plugin.Operation, c plugin.Call, o plugin.Observer,
	) (*plugin.Outcome, error) {
		outcome, err := f.call(ctx, op, c, o)
		if op == plugin.Reconcile && f.left["new"] && f.read().DeletionTimestamp == nil {
			f.remove(f.item)
			f.memory.Changed(client.ObjectKeyFromObject(f.item))
			<-ctx.Done()
		}
		return outcome, err
	}
	if item := f.drive(); item != nil {
		t.Fatalf("found %s", describe(item))
	}
	f.expect("at the end", nil, []string{"Reconcile on new", "Delete on old", "Delete on new"})
}

// Rule (deploy-items.md#moving): A move is taken back with the old Target, and can begin again.
func TestMoveTakenBack(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations []string
		fails       string
	}{
		"remove first": {moveFrom, "Delete on old"},
		"deploy first": {deployFirst, "Reconcile on new"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, true, tc.annotations...)
			f.fails = tc.fails
			f.driveTo(v1alpha1.DeployItemPhaseFailed)
			f.retarget("old")
			item := f.driveTo(v1alpha1.DeployItemPhaseSucceeded)
			f.expect("taken back", []string{"old"}, nil)
			if move.From(item) != "" || !strings.Contains(rawStatus(item), `"cluster":"old","done":true,"kind":"Status"`) {
				t.Errorf("found %s", rawStatus(item))
			}
			f.fails = ""
			f.retarget("new")
			f.driveTo(v1alpha1.DeployItemPhaseSucceeded)
			if !maps.Equal(f.left, map[string]bool{"new": true}) {
				t.Errorf("moved again: found %v after %v", f.left, f.did)
			}
		})
	}
}

// Rule (deploy-items.md#moving): After the deployment to the new cluster, the way back is a move from there.
func TestMoveReversed(t *testing.T) {
	for _, order := range []move.Order{move.RemoveFirst, move.DeployFirst} {
		t.Run(string(order), func(t *testing.T) {
			f := newFleet(t, true, deployFirst...)
			f.fails = "Delete on old"
			f.driveTo(v1alpha1.DeployItemPhaseFailed)
			f.retarget("old")
			last := f.driveTo(v1alpha1.DeployItemPhaseFailed).Status.LastError
			if last.Reason != sdk.ReasonTargetChanged || !strings.Contains(last.Message, move.FromAnnotation) {
				t.Errorf("found %+v", last)
			}
			f.expect("without a name", []string{"new", "old"}, []string{"Reconcile on new"})
			f.annotate(f.item, move.FromAnnotation, "new")
			f.annotate(f.item, move.OrderAnnotation, string(order))
			f.setJob()
			item := f.driveTo(v1alpha1.DeployItemPhaseSucceeded)
			f.expect("at the end", []string{"old"}, []string{"Reconcile on new", "Delete on new"})
			if move.From(item) != "" || !strings.Contains(rawStatus(item), `"cluster":"old","done":true,"kind":"Status"`) {
				t.Errorf("found %s", rawStatus(item))
			}
		})
	}
}

// retarget gives the item another Target, and a job.
func (f *fleet) retarget(name string) {
	f.t.Helper()
	f.patch(f.item, fmt.Sprintf(`{"spec":{"target":{"name":%q}}}`, name))
	f.setJob()
}
