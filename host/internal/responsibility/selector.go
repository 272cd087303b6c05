package responsibility

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reason tells in one word for machines why an item is ours, or is not.
type Reason string

// The reasons of a Decision.
const (
	// ReasonNoSelectors: nothing is selected, so that everything is ours.
	ReasonNoSelectors Reason = "NoTargetSelectors"
	// ReasonNoTarget: the item has no target that could be selected. It is ours.
	ReasonNoTarget Reason = "NoTarget"
	// ReasonSelected: a selector matches the Target. The item is ours.
	ReasonSelected Reason = "TargetSelected"
	// ReasonNotSelected: no selector matches the Target. The item is somebody else's.
	ReasonNotSelected Reason = "TargetNotSelected"
	// ReasonTargetNotFound: the Target is missing, so that nobody knows whose it would be. Only a deployer that is responsible
	// for all takes the item; if several that select did, they would contend for it.
	ReasonTargetNotFound Reason = "TargetNotFound"
)

// Decision tells whether an item is ours and why.
type Decision struct {
	// Responsible: the item is ours.
	Responsible bool
	// Reason is what the caller branches on.
	Reason Reason
	// Message is a sentence for people. It holds nothing of the Target but its name.
	Message string
}

// Selectors decide by the Target of an item whether it is ours. The zero value is responsible for all. Selectors do not change
// and can be used by several goroutines.
type Selectors struct {
	entries []entry
}

// entry is one selector of the list.
type entry struct {
	path         string
	targets      []v1alpha1.ObjectReference
	requirements []requirement
}

// Compile checks selectors and returns them in the form that decides, together with everything that is wrong with them. With
// errors the Selectors are of no use. path is where the list was found; nil stands for "targetSelectors".
func Compile(selectors []v1alpha1.TargetSelector, path *field.Path) (Selectors, field.ErrorList) {
	if path == nil {
		path = field.NewPath("targetSelectors")
	}
	var (
		compiled Selectors
		errs     field.ErrorList
	)
	for i, selector := range selectors {
		at := path.Index(i)
		e := entry{path: at.String()}
		for j, target := range selector.Targets {
			if target.Name == "" {
				errs = append(errs, field.Required(at.Child("targets").Index(j).Child("name"), "expected the name of a Target, but it is empty"))
			}
			e.targets = append(e.targets, target)
		}
		for _, part := range []struct {
			name         string
			requirements []v1alpha1.Requirement
			values       func(metav1.Object) map[string]string
		}{
			{"annotations", selector.Annotations, metav1.Object.GetAnnotations},
			{"labels", selector.Labels, metav1.Object.GetLabels},
		} {
			for j, r := range part.requirements {
				at := at.Child(part.name).Index(j)
				errs = append(errs, validateRequirement(r, at)...)
				e.requirements = append(e.requirements, newRequirement(r, part.values, at))
			}
		}
		compiled.entries = append(compiled.entries, e)
	}
	return compiled, errs
}

// Empty tells that there is nothing to select by: every decision is yes, and the Target need not be read for it.
func (s Selectors) Empty() bool { return len(s.entries) == 0 }

// Decide tells whether an item is ours. target is the Target of the item, or its metadata; nil if there is no such Target. It is
// ignored if the item has no target.
func (s Selectors) Decide(hasTarget bool, target metav1.Object) Decision {
	switch {
	case s.Empty():
		return Decision{true, ReasonNoSelectors, "there are no target selectors"}
	case !hasTarget:
		return Decision{true, ReasonNoTarget, "the item has no target, which every target selector lets pass"}
	case isNil(target):
		return Decision{false, ReasonTargetNotFound, "the Target is missing, so that no target selector can match it"}
	}
	name := fmt.Sprintf("Target %q", target.GetNamespace()+"/"+target.GetName())
	mismatches := make([]string, 0, maxMismatches)
	for i, e := range s.entries {
		mismatch := e.mismatch(target)
		switch {
		case mismatch == "":
			return Decision{true, ReasonSelected, fmt.Sprintf("%s is selected by %s", name, e.path)}
		case i < maxMismatches:
			mismatches = append(mismatches, mismatch)
		case i == maxMismatches:
			mismatches = append(mismatches, fmt.Sprintf("and %d more", len(s.entries)-i))
		}
	}
	return Decision{false, ReasonNotSelected, fmt.Sprintf("%s is not selected: %s", name, strings.Join(mismatches, ", "))}
}

// maxMismatches bounds the selectors that a message accounts for.
const maxMismatches = 3

// isNil also finds a nil pointer in the interface, which is what a caller has in hand who found no Target.
func isNil(target metav1.Object) bool {
	if target == nil {
		return true
	}
	v := reflect.ValueOf(target)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// mismatch says which part of the selector does not match; it is empty if all do.
func (e entry) mismatch(target metav1.Object) string {
	if len(e.targets) > 0 && !names(e.targets, target) {
		return e.path + ".targets do not name it"
	}
	for _, r := range e.requirements {
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
