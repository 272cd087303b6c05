package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// busyShare is the divisor of the time for rendering: a chart with less CPU time than this share is not to blame for
// the end of that time. It has waited for the target, or for a processor.
const busyShare = 10

// doing describes a request, as the beginning of a sentence.
func doing(req *helm.Request) string {
	release := req.Release.Namespace + "/" + req.Release.Name
	switch req.Action {
	case helm.Install:
		return "installing the release " + release
	case helm.Upgrade:
		return "upgrading the release " + release
	case helm.Uninstall:
		return "uninstalling the release " + release
	case helm.Values:
		return "working out the values of the release " + release
	default:
		return "rendering the chart of the release " + release
	}
}

func crash(req *helm.Request, why string) *helm.Error {
	return &helm.Error{Kind: helm.Crashed, Message: doing(req) + " has failed: " + why}
}

func exceeds(req *helm.Request, what string) *helm.Error {
	return &helm.Error{Kind: helm.LimitExceeded, Message: doing(req) + " needs more than it may have: " + what}
}

// tooSlow is the error about a process killed before it had rendered, and busy for so long.
func tooSlow(req *helm.Request, busy time.Duration) *helm.Error {
	limit := req.Limits.RenderTime
	if busy >= limit/busyShare {
		return exceeds(req, fmt.Sprintf("%s to render; look for templates that recurse or loop without an end", limit))
	}
	return &helm.Error{Kind: helm.ClusterFailed, Message: fmt.Sprintf(
		"%s has failed: the chart was not rendered within %s, most of which was spent waiting; the API server is slow or does "+
			"not answer, templates ask it too much with the function lookup, or the machine is overloaded", doing(req), limit)}
}

// outOfMemory matches the message of Go's runtime at the end of a process without memory, or with too large a stack.
var outOfMemory = regexp.MustCompile(`(?m)^(fatal error|runtime): .*(out of memory|cannot allocate|stack overflow)`)

// verdict returns the reason for the end of a process without a last report. err is that for the end of its reports.
func verdict(req *helm.Request, state *os.ProcessState, stderr string, err error) *helm.Error {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case state.ExitCode() == exitMemory, outOfMemory.MatchString(stderr):
		return exceeds(req, resource.NewQuantity(req.Limits.MemoryBytes, resource.BinarySI).String()+" of memory; a template "+
			"that renders or calls itself without an end does, or values, objects or a schema that are too large or nested too deep")
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF): // and was killed for it
		return crash(req, fmt.Sprintf("its process has sent an invalid message: %s", err))
	case ok && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return crash(req, "its process was killed; mostly that is since the machine, or the pod, is short of memory")
	default:
		return crash(req, fmt.Sprintf("its process has ended (%s); the log has more at level debug", state))
	}
}
