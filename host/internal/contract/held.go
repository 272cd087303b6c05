package contract

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ConditionHeld is True while another item holds what this one needs, by its last job, where there is no Landscaper;
// absent for all others. The message names both.
const ConditionHeld v1alpha1.ConditionType = "Held"

const (
	reasonHeld = "HeldByDeployItem"
	// messageHeld has the other item and what it holds.
	messageHeld = "the deploy item %s holds %s"
	// messageHolderGoes is what the running job waits for.
	messageHolderGoes = "the deploy item %s to be gone, which holds %s"
	// messageOrGone follows the time of the next try.
	messageOrGone = "; or when the deploy item %s is gone"
)

// Held is what an item needs and another item holds.
type Held struct {
	// By is the other item.
	By types.NamespacedName
	// What is a text of their plugin.
	What string
}

// HeldOf returns what an item needs and another one holds; the zero value for nothing.
func HeldOf(item *v1alpha1.DeployItem) Held {
	c := condition(&item.Status, ConditionHeld)
	if c == nil {
		return Held{}
	}
	var by string
	if _, err := fmt.Sscanf(c.Message, messageHeld, &by, new(string)); err != nil {
		return Held{}
	}
	namespace, name, _ := strings.Cut(by, "/")
	return Held{
		By:   types.NamespacedName{Namespace: namespace, Name: name},
		What: strings.TrimPrefix(c.Message, fmt.Sprintf(messageHeld, by, "")),
	}
}

// WaitForHolder shows in the status that a running job waits for the end of an item that is being deleted.
func WaitForHolder(item *v1alpha1.DeployItem, held Held, now time.Time) {
	Wait(item, fmt.Sprintf(messageHolderGoes, held.By, held.What), now)
	setHeld(&item.Status, held, now)
}

// ClaimOn returns what an item needs of another one, by the last job for its current spec; empty for nothing. Only an
// item of the same type and Target can take it over.
func ClaimOn(holder, item *v1alpha1.DeployItem) (what string) {
	held := HeldOf(item)
	target, _ := TargetOfItem(item)
	itsTarget, _ := TargetOfItem(holder)
	if held.By != (types.NamespacedName{Namespace: holder.Namespace, Name: holder.Name}) ||
		item.DeletionTimestamp != nil || item.Generation != item.Status.ObservedGeneration ||
		item.Namespace != holder.Namespace || item.Spec.Type != holder.Spec.Type || target != itsTarget {
		return ""
	}
	return held.What
}

// setHeld shows what an item needs and another one holds.
func setHeld(status *v1alpha1.DeployItemStatus, held Held, now time.Time) {
	if held == (Held{}) {
		removeConditions(status, ConditionHeld)
		return
	}
	setCondition(status, ConditionHeld, v1alpha1.ConditionTrue, reasonHeld,
		fmt.Sprintf(messageHeld, held.By, held.What), now)
}
