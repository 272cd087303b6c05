package controller

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

// oneHolder is a cache with one other item; nil for none.
type oneHolder struct{ item *v1alpha1.DeployItem }

func (h *oneHolder) Marked(value string) *v1alpha1.DeployItem {
	if h.item == nil || mark.ValueOf(h.item.Namespace, h.item.Name) != value {
		return nil
	}
	return h.item
}

func (h *oneHolder) Claims(*v1alpha1.DeployItem) ([]sdk.Claim, error) { return nil, nil }

// Rule (deploy-items.md#items-that-need-the-same): An item that needs what an item under deletion holds waits for the
// end of that one; it fails while the other one lives.
func TestHolder(t *testing.T) {
	deleted := &metav1.Time{Time: time.Now()}
	by := types.NamespacedName{Namespace: "shop", Name: "old"}
	for name, tc := range map[string]struct {
		holder *v1alpha1.DeployItem
		waits  bool
		held   contract.Held
	}{
		"deleted": {
			&v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{
				Namespace: by.Namespace, Name: by.Name, DeletionTimestamp: deleted,
			}},
			true, contract.Held{By: by, What: "release a"},
		},
		"living": {
			&v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: by.Namespace, Name: by.Name}},
			false, contract.Held{By: by, What: "release a"},
		},
		"gone": {nil, false, contract.Held{}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
				return &plugin.Outcome{Errors: []plugin.Error{{
					Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Reason: "Taken", Message: "taken",
					Held: sdk.Claim{DeployItem: "shop.old", What: "release a"},
				}}}, nil
			})
			b.set(func(p *parts) { p.options.Standalone = true })
			b.jobs.Holders = &oneHolder{tc.holder}
			b.setJob()
			for range 3 {
				b.clock.Step(b.reconcile(t.Context()))
			}
			item := b.read()
			if contract.Finished(item) == tc.waits || contract.HeldOf(item) != tc.held {
				t.Fatalf("expected to wait: %t, for %+v, but found %s", tc.waits, tc.held, describe(item))
			}
			if !tc.waits {
				return
			}
			b.jobs.Holders, b.answer = &oneHolder{}, succeeds
			if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
				t.Errorf("expected a job that goes on, but found %s", describe(item))
			}
		})
	}
}
