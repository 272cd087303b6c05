package job

import (
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// need is what an item needs of the side that sets jobs.
type need string

const (
	// needNothing: the last job was for the item as it is.
	needNothing need = "nothing"
	// needJob: the item needs a job and can have one.
	needJob need = "job"
	// needPatience: the item needs a job when the one under way has ended.
	needPatience need = "patience"
)

// decide tells what an item needs. The deployer notes the generation that it has picked a job up for; a deletion raises the
// generation as a change of the spec does.
func decide(item *v1alpha1.DeployItem) need {
	wanted := item.Status.JobID == "" ||
		item.Generation != item.Status.ObservedGeneration ||
		asksForReconcile(item)
	switch {
	case !wanted:
		return needNothing
	case item.Status.JobID != item.Status.JobIDFinished:
		return needPatience
	default:
		return needJob
	}
}

func asksForReconcile(item *v1alpha1.DeployItem) bool {
	return item.Annotations[v1alpha1.OperationAnnotation] == v1alpha1.OperationReconcile
}
