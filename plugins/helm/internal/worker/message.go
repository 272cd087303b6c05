package worker

import (
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// order is what a parent sends: one of these.
type order struct {
	Request *helm.Request
	// Answer is that to report.Changing, report.Rendered or report.Found.
	Answer *answer
}

// answer says which objects are to be created, or that the deployer wants no change.
type answer struct {
	// Objects are for report.Rendered.
	Objects []helm.Object
	Refused bool
}

// report is what a worker sends: one of these, or nothing when it has started.
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

// done is how a request has ended: with one of Result and Err.
type done struct {
	Result *helm.Result
	Err    *helm.Error
	// Busy is how much time of processors the process has used since it was started.
	Busy time.Duration
	// Last says that the process has too much memory to take another request.
	Last bool
}
