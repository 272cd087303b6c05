package desired

import (
	"errors"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReasonVanished is the reason of the error about an object gone after its job has applied it.
const ReasonVanished = "ObjectVanished"

// Vanished returns the error about an object deleted after its job had applied it. It is not retried: a self-deleting
// Job would run again and again.
func Vanished(i *Object) error {
	text := "this job has applied it, and it was deleted before the job was done; another job creates it again"
	if i.Key.Group == "batch" && i.Key.Kind == "Job" {
		text += ". If the Job deletes itself, set its spec.ttlSecondsAfterFinished instead, and it counts as done"
	}
	return &sdk.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Reason: ReasonVanished, Err: errors.New(text),
		Heals: neverEnds(i.Key),
	}
}

// neverEnds reports whether an object is of a kind of Kubernetes that has no end of its own. Such an object vanishes
// with the deletion of its former owner; another one may have done its work.
func neverEnds(key object.Key) bool {
	builtin := !strings.Contains(key.Group, ".") || strings.HasSuffix(key.Group, ".k8s.io")
	return builtin && key.Group != "batch" && key.Kind != "Pod"
}
