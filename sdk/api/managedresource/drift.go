package managedresource

import "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"

// ConditionDrifted is the type of the condition that says that the last job found objects changed on the target
// although nobody had changed the deploy item, and has repaired them, or could not. An item that never drifted does not
// have it.
const ConditionDrifted v1alpha1.ConditionType = "Drifted"

// Drift is what a job found changed on the target although nobody had changed the deploy item. It names fields and
// never values.
type Drift struct {
	// JobID is the job that found it.
	JobID string `json:"jobID"`
	// Objects are those that had changed; of very many only the first.
	Objects []DriftedObject `json:"objects"`
}

// DriftedObject is one object that had changed.
type DriftedObject struct {
	// Resource names the object.
	Resource ObjectReference `json:"resource"`
	// Missing says that it was gone.
	Missing bool `json:"missing,omitempty"`
	// Fields are the paths of the fields that had changed; of very many only the first.
	Fields []string `json:"fields,omitempty"`
	// Refused says why the target refuses the repair. Empty if the object was repaired.
	Refused string `json:"refused,omitempty"`
}
