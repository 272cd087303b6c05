package contract_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var held = contract.Held{
	By: types.NamespacedName{Namespace: "shop", Name: "old.web"}, What: "release shop/web of chart web",
}

// Rule (deploy-items.md#items-that-need-the-same): A failed item says which other item holds what it needs, and that it
// is tried again when that one is gone.
func TestHeld(t *testing.T) {
	pauses := contract.Pauses{First: time.Minute, Longest: time.Hour}
	e := contract.Error{Reason: "Taken", Heals: true, Held: held}
	item := newItem(begun)
	pauses.Fail(item, false, e, 0, noon)
	if got := contract.HeldOf(item); got != held {
		t.Errorf("expected %+v, but found %+v", held, got)
	}
	if c := nextTry(item); c == nil || !strings.HasSuffix(c.Message, "; or when the deploy item shop/old.web is gone") {
		t.Errorf("expected both times of the next try, but found %+v", c)
	}
	next, ok := pauses.NextTry(item)
	if !ok || next.Number != 2 || next.At.IsZero() {
		t.Errorf("expected a time of the next try, but found %+v", next)
	}
	contract.SetTry(item, "again", next, noon)
	contract.Begin(item, false, v1alpha1.DeployerInformation{}, noon)
	if contract.HeldOf(item) != held {
		t.Error("the need is forgotten before the try has ended")
	}
	if contract.Succeed(item, noon); contract.HeldOf(item) != (contract.Held{}) {
		t.Error("the need outlasts a success")
	}
	item = newItem(begun)
	contract.WaitForHolder(item, held, noon)
	if contract.HeldOf(item) != held ||
		!strings.Contains(contract.WaitingFor(item), "deploy item shop/old.web to be gone") {
		t.Errorf("the wait is not shown: %+v", item.Status.Conditions)
	}
	if pauses.Fail(item, false, contract.Error{Reason: "Other"}, 0, noon); contract.HeldOf(item) != (contract.Held{}) {
		t.Error("the need outlasts another error")
	}
}

// Rule (deploy-items.md#items-that-need-the-same): A living item of the same type and Target has a claim to
// what a deleted one holds.
func TestClaimOn(t *testing.T) {
	target := func(i *v1alpha1.DeployItem, name string) { i.Spec.Target = &v1alpha1.ObjectReference{Name: name} }
	for name, tc := range map[string]struct {
		change func(holder, item *v1alpha1.DeployItem)
		want   string
	}{
		"alike":           {func(_, _ *v1alpha1.DeployItem) {}, held.What},
		"another holder":  {func(h, _ *v1alpha1.DeployItem) { h.Name = "another" }, ""},
		"another Target":  {func(_, i *v1alpha1.DeployItem) { target(i, "there") }, ""},
		"another type":    {func(_, i *v1alpha1.DeployItem) { i.Spec.Type = "other" }, ""},
		"other namespace": {func(_, i *v1alpha1.DeployItem) { i.Namespace = "yard" }, ""},
		"changed since":   {func(_, i *v1alpha1.DeployItem) { i.Generation++ }, ""},
		"deleted, too":    {func(_, i *v1alpha1.DeployItem) { i.DeletionTimestamp = &metav1.Time{Time: noon} }, ""},
	} {
		holder, item := newItem(finished(succeeded)), newItem(begun)
		holder.Namespace, holder.Name, item.Namespace, item.Name = held.By.Namespace, held.By.Name, held.By.Namespace, "web"
		target(holder, "here")
		target(item, "here")
		contract.Fail(item, false, contract.Error{Reason: "Taken", Held: held}, noon)
		tc.change(holder, item)
		if got := contract.ClaimOn(holder, item); got != tc.want {
			t.Errorf("%s: expected %q, but found %q", name, tc.want, got)
		}
	}
}
