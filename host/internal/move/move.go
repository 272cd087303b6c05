// Package move moves the deployed objects of an item to the cluster of another Target, where there is no Landscaper:
// with two calls of its plugin instead of one.
//
// The plugin answers with sdk.ReasonTargetChanged if the item's Target leads to another cluster than before, and the
// user names in an annotation the Target that leads to the old one. From then on the provider status of the item holds
// two documents of the plugin: one about the old cluster, until nothing is left there, and one about the new cluster.
// Each call gets one of them. Both change in the same write as the state, so that no crash loses one. A plugin that is
// called without this package refuses the provider status by its kind.
package move

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The annotations of users. They have no effect without an answer of the plugin about another cluster.
const (
	// FromAnnotation names the Target that leads to the old cluster.
	FromAnnotation = "host.pergola.dev/move-from"
	// OrderAnnotation is an Order. It defaults to RemoveFirst.
	OrderAnnotation = "host.pergola.dev/move-order"
)

// Order is the order of a move.
type Order string

// The orders.
const (
	RemoveFirst Order = "remove-first"
	DeployFirst Order = "deploy-first"
)

// Condition is True during a move, and False after its end; absent for an item that has never moved. Its reason is the
// State, and its message names the old Target.
const Condition v1alpha1.ConditionType = "Moving"

// The reasons of the condition.
const (
	reasonMoved     = "Moved"
	reasonDeploying = "Deploying"
	reasonRemoving  = "Removing"
	reasonTakenBack = "TakenBack"
)

// State is the state of a move.
type State string

// The states.
const (
	// Still: there is no move.
	Still State = reasonMoved
	// Deploying: the plugin is called for the new cluster, until it succeeds.
	Deploying State = reasonDeploying
	// Removing: the plugin is called to delete everything on the old cluster.
	Removing State = reasonRemoving
	// TakenBack: the item names its old Target again, and nothing is recorded about another cluster. The plugin is called
	// for the old cluster as without a move.
	TakenBack State = reasonTakenBack
	// Reversing: the item names its old Target again, but something is recorded about another cluster. The plugin answers
	// that this is another one, and the move from there begins if the annotation names a Target for it.
	Reversing State = "Reversing"
)

var messages = map[State]string{
	Still:     "the move from the Target %s has ended",
	Deploying: "the move from the Target %s goes on: it deploys to the new one, and then removes all from the old one",
	Removing:  "the move from the Target %s goes on: it removes all there",
	TakenBack: "the move from the Target %s was taken back",
}

// Of returns the state of the move of an item. A deletion begins on the old cluster. A call keeps its state to the end,
// whatever happens to the item meanwhile.
func Of(item *v1alpha1.DeployItem) State {
	own, _ := contract.TargetOfItem(item)
	switch {
	case !moves(item):
		return Still
	case item.DeletionTimestamp != nil:
		return Removing
	case From(item) != own:
		return State(conditionOf(item).Reason)
	case read(item).New == nil:
		return TakenBack
	default:
		return Reversing
	}
}

// Removes reports whether a call in this state is to delete everything on the old cluster.
func (s State) Removes() bool { return s == Removing }

func moves(item *v1alpha1.DeployItem) bool {
	c := conditionOf(item)
	return c != nil && c.Status == v1alpha1.ConditionTrue
}

// From returns the name of the old Target during a move; empty without one.
func From(item *v1alpha1.DeployItem) (name string) {
	if moves(item) {
		_, _ = fmt.Sscanf(conditionOf(item).Message, messages[Still], &name) // it is the fifth word of each message
	}
	return name
}

func conditionOf(item *v1alpha1.DeployItem) *v1alpha1.Condition {
	for i, c := range item.Status.Conditions {
		if c.Type == Condition {
			return &item.Status.Conditions[i]
		}
	}
	return nil
}

// both is the provider status of an item during a move.
type both struct {
	metav1.TypeMeta `json:",inline"`
	// Old and New are the documents of the plugin about the two clusters; absent for none.
	Old *runtime.RawExtension `json:"old,omitempty"`
	New *runtime.RawExtension `json:"new,omitempty"`
}

var typeOfBoth = metav1.TypeMeta{APIVersion: "host.pergola.dev/v1alpha1", Kind: "MovingProviderStatus"}

// read returns the two documents of an item.
func read(item *v1alpha1.DeployItem) *both {
	b := &both{TypeMeta: typeOfBoth}
	if !moves(item) {
		b.New = item.Status.ProviderStatus
	} else if raw := item.Status.ProviderStatus; raw != nil {
		_ = json.Unmarshal(raw.Raw, b) // an API server returns JSON
	}
	return b
}

// of returns the place of the document of a call in a state.
func (b *both) of(s State) **runtime.RawExtension {
	if s == Removing || s == TakenBack {
		return &b.Old
	}
	return &b.New
}

// View returns the item for a call of its plugin in a state: with the Target and the provider status of that call. It
// shares all else with the item.
func View(item *v1alpha1.DeployItem, s State) *v1alpha1.DeployItem {
	view := *item
	if s.Removes() {
		view.Spec.Target = &v1alpha1.ObjectReference{Name: From(item), Namespace: item.Namespace}
	}
	view.Status.ProviderStatus = *read(item).of(s)
	return &view
}

// Own is View for a call about the item's own Target.
func Own(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	s := Of(item)
	if s.Removes() {
		s = Deploying
	}
	return View(item, s)
}

// Save returns the change that saves a provider status of a call in a state; nil changes nothing.
func Save(s State, document []byte) func(*v1alpha1.DeployItem) {
	return func(item *v1alpha1.DeployItem) {
		if document == nil {
			return
		}
		b := read(item)
		*b.of(s) = &runtime.RawExtension{Raw: document}
		b.write(item, moves(item))
	}
}

// write writes the documents as the provider status of an item that moves, or one of them for another.
func (b *both) write(item *v1alpha1.DeployItem, moves bool) {
	if !moves {
		item.Status.ProviderStatus = b.New
		return
	}
	raw, err := json.Marshal(b)
	if err == nil { // checked documents marshal
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: raw}
	}
}

// enter returns the change by a call in a state to the next state of the move from a Target.
func enter(s, next State, from string, now time.Time) func(*v1alpha1.DeployItem) {
	return func(item *v1alpha1.DeployItem) {
		b, goesOn := read(item), v1alpha1.ConditionTrue
		if next == Still || next == TakenBack {
			goesOn = v1alpha1.ConditionFalse
		}
		switch {
		case s == Still, s == Reversing && next != TakenBack, s == TakenBack && next == TakenBack:
			b.Old, b.New = b.New, b.Old // the cluster of the call becomes the old one, or that of the item
		}
		b.write(item, goesOn == v1alpha1.ConditionTrue)
		contract.SetReported(item, []sdk.Condition{{
			Type: Condition, Status: goesOn, Reason: string(next), Message: fmt.Sprintf(messages[next], from),
		}}, now)
	}
}
