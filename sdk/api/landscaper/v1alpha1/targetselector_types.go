package v1alpha1

// TargetSelector selects Targets. It is no part of an object but of the configuration of a deployer: the deployer
// carries out the items of the Targets that one of its selectors matches. All fields that are set must match; a
// selector without any matches every Target.
//
// +kubebuilder:object:generate=false
type TargetSelector struct {
	// Targets match a Target named by one of them. An empty namespace stands for any.
	Targets []ObjectReference `json:"targets,omitempty"`
	// Annotations must all be met by the annotations of the Target.
	Annotations []Requirement `json:"annotations,omitempty"`
	// Labels must all be met by the labels of the Target.
	Labels []Requirement `json:"labels,omitempty"`
}

// Requirement is a condition on an annotation or a label. It has the meaning of a requirement of a Kubernetes label
// selector, but the value of an annotation can be any text.
//
// +kubebuilder:object:generate=false
type Requirement struct {
	// Key of the annotation or label.
	Key string `json:"key"`
	// Operator relates the value to Values.
	Operator RequirementOperator `json:"operator"`
	// Values to compare with. How many there must be depends on the operator.
	Values []string `json:"values,omitempty"`
}

// RequirementOperator relates the value of an annotation or label to the values of a Requirement.
type RequirementOperator string

// The operators of a Requirement.
const (
	// RequirementEquals: the key is there with the one value.
	RequirementEquals RequirementOperator = "="
	// RequirementDoubleEquals is another spelling of RequirementEquals.
	RequirementDoubleEquals RequirementOperator = "=="
	// RequirementNotEquals: the key is missing or has another value than the one.
	RequirementNotEquals RequirementOperator = "!="
	// RequirementIn: the key is there with one of the values.
	RequirementIn RequirementOperator = "in"
	// RequirementNotIn: the key is missing or has none of the values.
	RequirementNotIn RequirementOperator = "notin"
	// RequirementExists: the key is there. Takes no values.
	RequirementExists RequirementOperator = "exists"
	// RequirementDoesNotExist: the key is missing. Takes no values.
	RequirementDoesNotExist RequirementOperator = "!"
	// RequirementGreaterThan: the key is there with an integer greater than the one value, an integer, too.
	RequirementGreaterThan RequirementOperator = "gt"
	// RequirementLessThan: the key is there with an integer less than the one value, an integer, too.
	RequirementLessThan RequirementOperator = "lt"
)
