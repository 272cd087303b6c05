package managedresource

import "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"

// Exports lists values to read from objects once they are there.
type Exports struct {
	// DefaultTimeout is read for compatibility. The timeout of the deploy item bounds the wait for values.
	DefaultTimeout v1alpha1.Duration `json:"defaultTimeout,omitempty"`
	// Exports are the values to read.
	Exports []Export `json:"exports,omitempty"`
}

// Export is one value to read from an object.
type Export struct {
	// Key under which the value is exported. Dots make nested maps: "a.b" exports {"a": {"b": value}}.
	Key string `json:"key"`
	// JSONPath of the value within the object, as kubectl reads it, with or without braces: ".data.foo".
	JSONPath string `json:"jsonPath"`
	// FromResource names the object.
	FromResource *TypedObjectReference `json:"fromResource,omitempty"`
	// FromObjectReference is the place of the value in another object; JSONPath then leads to a reference to it.
	FromObjectReference *FromObjectReference `json:"fromObjectRef,omitempty"`
	// TargetName names another Target to read from. Defaults to the Target of the deploy item.
	TargetName *string `json:"targetName,omitempty"`
}

// FromObjectReference is the place of a value in an object named within another.
type FromObjectReference struct {
	// APIVersion of the referenced object.
	APIVersion string `json:"apiVersion"`
	// Kind of the referenced object.
	Kind string `json:"kind"`
	// JSONPath of the value within the referenced object.
	JSONPath string `json:"jsonPath"`
}
