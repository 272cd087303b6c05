// Package selector selects the DeployItems of a host by their Targets, as its target selectors say.
package selector

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reason is the reason of a Selection, in one word for machines.
type Reason string

// The reasons of a Selection.
const (
	// NoTargetSelectors: there are no selectors, so that every item is ours.
	NoTargetSelectors Reason = "NoTargetSelectors"
	// NoTarget: the item has no target to select by. It is ours.
	NoTarget Reason = "NoTarget"
	// TargetSelected: a selector matches the Target. The item is ours.
	TargetSelected Reason = "TargetSelected"
	// TargetNotSelected: no selector matches the Target. The item belongs to another deployer.
	TargetNotSelected Reason = "TargetNotSelected"
	// TargetNotFound: the Target is missing. Only a deployer without selectors takes the item; several with selectors
	// would contend for it.
	TargetNotFound Reason = "TargetNotFound"
)

// Selection says whether an item is ours, and why.
type Selection struct {
	// Responsible: the item is ours.
	Responsible bool
	// Reason is for callers to branch on.
	Reason Reason
	// Message is a sentence for people. It holds nothing of the Target but its name.
	Message string
}

// Selectors decide by the Target of an item whether it is ours. The zero value selects all. They are immutable, and
// safe for concurrent use as long as their list is not changed.
type Selectors struct {
	entries []selector
}

// selector is an entry of the list. A Target must meet all of it.
type selector struct {
	path         string
	targets      []v1alpha1.ObjectReference
	requirements []requirement
}

// Compile validates selectors and returns them ready for use, or all errors. path is where the list was found;
// nil stands for "targetSelectors".
func Compile(selectors []v1alpha1.TargetSelector, path *field.Path) (Selectors, field.ErrorList) {
	if path == nil {
		path = field.NewPath("targetSelectors")
	}
	var (
		compiled Selectors
		errs     field.ErrorList
	)
	for i, s := range selectors {
		at := path.Index(i)
		for j, target := range s.Targets {
			if target.Name == "" {
				errs = append(errs, field.Required(at.Child("targets").Index(j).Child("name"),
					"expected the name of a Target, but it is empty"))
			}
		}
		annotations, wrong := compileRequirements(s.Annotations, at.Child("annotations"), metav1.Object.GetAnnotations)
		errs = append(errs, wrong...)
		labels, wrong := compileRequirements(s.Labels, at.Child("labels"), metav1.Object.GetLabels)
		errs = append(errs, wrong...)
		compiled.entries = append(compiled.entries, selector{
			path: at.String(), targets: s.Targets, requirements: append(annotations, labels...),
		})
	}
	return compiled, errs
}

// Empty reports whether there are no selectors: every item is ours, and its Target need not be read.
func (s Selectors) Empty() bool { return len(s.entries) == 0 }

// maxMismatches bounds the selectors explained by a message.
const maxMismatches = 3

// Select decides whether an item is ours. target is the Target of the item, or its metadata; nil if there is no such
// Target. It is ignored if the item has no target.
func (s Selectors) Select(hasTarget bool, target metav1.Object) Selection {
	switch {
	case s.Empty():
		return Selection{true, NoTargetSelectors, "there are no target selectors"}
	case !hasTarget:
		return Selection{true, NoTarget, "the item has no target, which every target selector lets pass"}
	case target == nil:
		return Selection{false, TargetNotFound, "the Target is missing, so that no target selector can match it"}
	}
	name := fmt.Sprintf("Target %q", target.GetNamespace()+"/"+target.GetName())
	var mismatches []string
	for _, e := range s.entries {
		mismatch := e.mismatch(target)
		if mismatch == "" {
			return Selection{true, TargetSelected, fmt.Sprintf("%s is selected by %s", name, e.path)}
		}
		mismatches = append(mismatches, mismatch)
	}
	if more := len(mismatches) - maxMismatches; more > 0 {
		mismatches = append(mismatches[:maxMismatches], fmt.Sprintf("and %d more", more))
	}
	return Selection{false, TargetNotSelected, name + " is not selected: " + strings.Join(mismatches, ", ")}
}

// mismatch names the part of the selector that does not match; empty if all do.
func (s selector) mismatch(target metav1.Object) string {
	if len(s.targets) > 0 && !names(s.targets, target) {
		return s.path + ".targets do not name it"
	}
	for _, r := range s.requirements {
		if !r.matches(target) {
			return r.text + " is not met"
		}
	}
	return ""
}

func names(references []v1alpha1.ObjectReference, target metav1.Object) bool {
	for _, r := range references {
		if r.Name == target.GetName() && (r.Namespace == "" || r.Namespace == target.GetNamespace()) {
			return true
		}
	}
	return false
}
