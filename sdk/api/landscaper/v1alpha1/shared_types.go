package v1alpha1

import "encoding/json"

// ErrorCode classifies an error for machines.
type ErrorCode string

// The error codes of Landscaper.
const (
	// ErrorUnauthorized: credentials are missing, wrong or not sufficient.
	ErrorUnauthorized ErrorCode = "ERR_UNAUTHORIZED"
	// ErrorCleanup: something could not be removed.
	ErrorCleanup ErrorCode = "ERR_CLEANUP"
	// ErrorConfigurationProblem: the user's input is wrong.
	ErrorConfigurationProblem ErrorCode = "ERR_CONFIGURATION_PROBLEM"
	// ErrorInternalProblem: the program, not its input, is wrong.
	ErrorInternalProblem ErrorCode = "ERR_INTERNAL_PROBLEM"
	// ErrorTimeout: a job took longer than its timeout, or was not picked up in time.
	ErrorTimeout ErrorCode = "ERR_TIMEOUT"
	// ErrorCyclicDependencies: things depend on each other in a circle.
	ErrorCyclicDependencies ErrorCode = "ERR_CYCLIC_DEPENDENCIES"
	// ErrorWebhook: a webhook refused or could not be reached.
	ErrorWebhook ErrorCode = "ERR_WEBHOOK"
	// ErrorUnfinished: something is not done yet.
	ErrorUnfinished ErrorCode = "ERR_UNFINISHED"
	// ErrorForInfoOnly: the error is expected and logged at a lower level.
	ErrorForInfoOnly ErrorCode = "ERR_FOR_INFO_ONLY"
	// ErrorNoRetry: trying again makes no sense.
	ErrorNoRetry ErrorCode = "ERR_NO_RETRY"
)

// Unrecoverable tells whether an error with this code ends the job. Errors without such a code are retried until the
// timeout.
func (c ErrorCode) Unrecoverable() bool {
	switch c {
	case ErrorConfigurationProblem, ErrorInternalProblem, ErrorTimeout, ErrorUnauthorized, ErrorCyclicDependencies:
		return true
	default:
		return false
	}
}

// EndsJob reports whether an error with this code ends the job: an unrecoverable one, or ErrorNoRetry.
func (c ErrorCode) EndsJob() bool { return c.Unrecoverable() || c == ErrorNoRetry }

// Error is an error in the status of an object.
type Error struct {
	// Operation is the failed operation.
	Operation string `json:"operation"`
	// LastTransitionTime is when Operation changed last.
	LastTransitionTime Time `json:"lastTransitionTime"`
	// LastUpdateTime is when anything of the error changed last.
	LastUpdateTime Time `json:"lastUpdateTime"`
	// Reason is a CamelCase word for machines.
	Reason string `json:"reason"`
	// Message is a sentence for people.
	Message string `json:"message"`
	// Codes classify the error.
	// +optional
	Codes []ErrorCode `json:"codes,omitempty"`
}

// ConditionType is the type of a Condition.
type ConditionType string

// ConditionStatus is the status of a Condition.
type ConditionStatus string

// The values of ConditionStatus.
const (
	ConditionTrue        ConditionStatus = "True"
	ConditionFalse       ConditionStatus = "False"
	ConditionUnknown     ConditionStatus = "Unknown"
	ConditionProgressing ConditionStatus = "Progressing"
)

// Condition is one aspect of an object's state.
type Condition struct {
	// Type names the aspect.
	Type ConditionType `json:"type"`
	// Status of the aspect.
	Status ConditionStatus `json:"status"`
	// LastTransitionTime is when Status changed last.
	LastTransitionTime Time `json:"lastTransitionTime"`
	// LastUpdateTime is when anything of the condition changed last.
	LastUpdateTime Time `json:"lastUpdateTime"`
	// Reason is a CamelCase word for machines.
	Reason string `json:"reason"`
	// Message is a sentence for people.
	Message string `json:"message"`
	// Codes classify the error behind the condition.
	// +optional
	Codes []ErrorCode `json:"codes,omitempty"`
	// Unknown are the fields unknown to this type. Conditions are written as one list, with those of other writers in it,
	// and these must come out as they went in.
	Unknown map[string]json.RawMessage `json:"-"`
}

// ObjectReference names an object.
type ObjectReference struct {
	// Name of the object.
	Name string `json:"name"`
	// Namespace of the object; empty for the namespace of the referring object.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// LocalObjectReference names an object in the namespace of the referring object.
type LocalObjectReference struct {
	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`
}

// LocalSecretReference names a key of a secret in the namespace of the referring object.
type LocalSecretReference struct {
	// Name of the secret.
	Name string `json:"name"`
	// Key in the secret's data; empty for the whole secret as a map.
	// +optional
	Key string `json:"key,omitempty"`
}
