// Package readiness tells from objects, as an API server returned them, whether they are ready.
package readiness

import (
	"fmt"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// Verdict is what objects lack to be ready, in the order of the objects. All are ready if it is empty.
type Verdict struct {
	// Waiting are the objects that are on their way, each with what it lacks.
	Waiting []string
	// Failed are the objects that have given up, each with its reason.
	Failed []string
}

// Check judges objects by their kinds with the rules of kstatus: workloads by their replicas and observed generation, Jobs, CRDs,
// volume claims and Services by their own rules, other kinds by their conditions. A kind without a status is ready at once.
func Check(objects []*unstructured.Unstructured) Verdict {
	var v Verdict
	for _, o := range objects {
		result, err := status.Compute(o)
		if err != nil {
			v.Waiting = append(v.Waiting, fmt.Sprintf("%s: its status cannot be read: %v", object.KeyOf(o), err))
			continue
		}
		text := fmt.Sprintf("%s: %s", object.KeyOf(o), result.Message)
		switch result.Status {
		case status.CurrentStatus:
		case status.FailedStatus:
			v.Failed = append(v.Failed, text)
		default: // on its way, in one state or another
			v.Waiting = append(v.Waiting, text)
		}
	}
	return v
}
