package managedresource

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
)

// ReadinessCheckConfiguration says when objects count as ready.
type ReadinessCheckConfiguration struct {
	// DisableDefault switches off the built-in checks by the kind of an object.
	DisableDefault bool `json:"disableDefault,omitempty"`
	// Custom are further checks.
	Custom []CustomReadinessCheck `json:"custom,omitempty"`
}

// CustomReadinessCheck compares values of objects with expected ones.
type CustomReadinessCheck struct {
	// Name of the check.
	Name string `json:"name"`
	// Disabled switches the check off.
	Disabled bool `json:"disabled,omitempty"`
	// Resource names the objects to check.
	Resource []TypedObjectReference `json:"resourceSelector,omitempty"`
	// LabelSelector selects the objects to check.
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`
	// Requirements must all be met by each of the objects.
	Requirements []Requirement `json:"requirements"`
	// TargetName names another Target to read from. Defaults to the Target of the deploy item.
	TargetName *string `json:"targetName,omitempty"`
}

// LabelSelector selects objects of one kind by their labels.
type LabelSelector struct {
	// APIVersion of the objects.
	APIVersion string `json:"apiVersion"`
	// Kind of the objects.
	Kind string `json:"kind"`
	// MatchLabels must all be on an object.
	MatchLabels map[string]string `json:"matchLabels"`
}

// Requirement compares one value of an object.
type Requirement struct {
	// JSONPath of the value within the object.
	JSONPath string `json:"jsonPath"`
	// Operator of the comparison.
	Operator selection.Operator `json:"operator"`
	// Values to compare with, each of the form {"value": X}.
	Values []runtime.RawExtension `json:"values,omitempty"`
}
