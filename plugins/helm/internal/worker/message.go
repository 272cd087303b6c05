package worker

import (
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// order is a message of a parent: one of these.
type order struct {
	Request *helm.Request
	// Answer is the answer to report.Changing, report.Rendered or report.Found.
	Answer *answer
}

// answer has the objects to create, or the deployer's refusal of a change.
type answer struct {
	// Objects are for report.Rendered.
	Objects []helm.Object
	Refused bool
}

// report is a message of a worker: one of these, or nothing after its start.
type report struct {
	// Changing, Rendered and Found ask for an answer.
	Changing bool
	Rendered *rendered
	Found    []helm.Found
	Progress *progress
	Warning  *warning
	Log      string
	// Done ends the request.
	Done *done
}

type rendered struct{ Objects []helm.Object }

type progress struct{ Step, Message string }

type warning struct{ Reason, Message string }

// done is the end of a request: one of Result and Err.
type done struct {
	Result *helm.Result
	Err    *helm.Error
	// Busy is the CPU time used by the process since its start.
	Busy time.Duration
	// Last: the process has too much memory for another request.
	Last bool
}
