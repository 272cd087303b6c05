package managedresource

import "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"

// ConditionDrifted is the type of the condition about drift: the last job found objects changed on the target under an
// unchanged deploy item, and has repaired them, or could not. An item without any drift so far lacks it.
const ConditionDrifted v1alpha1.ConditionType = "Drifted"

// Drift is the difference between the target and an unchanged deploy item, as found by a job. It names fields and never
// values.
type Drift struct {
	// JobID is the job with the finding.
	JobID string `json:"jobID"`
	// Objects are the changed objects; of very many only the first.
	Objects []DriftedObject `json:"objects"`
}

// DriftedObject is one changed object.
type DriftedObject struct {
	// Resource names the object.
	Resource ObjectReference `json:"resource"`
	// Missing: the object was gone.
	Missing bool `json:"missing,omitempty"`
	// Fields are the paths of the changed fields; of very many only the first.
	Fields []string `json:"fields,omitempty"`
	// Refused says why the target refuses the repair. Empty if the object was repaired.
	Refused string `json:"refused,omitempty"`
}
