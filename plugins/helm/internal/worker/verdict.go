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
		return "installing release " + release
	case helm.Upgrade:
		return "upgrading release " + release
	case helm.Uninstall:
		return "uninstalling release " + release
	case helm.Values:
		return "combining the values of release " + release
	case helm.Index:
		return "reading the index of the chart repository"
	default:
		return "rendering the chart of release " + release
	}
}

func crash(req *helm.Request, why string) *helm.Error {
	return &helm.Error{Kind: helm.Crashed, Message: doing(req) + " failed: " + why}
}

// exceeds is the error about a limit, with advice for a chart.
func exceeds(req *helm.Request, limit, advice string) *helm.Error {
	if req.Action == helm.Index {
		advice = "the index is too large, or nested too deep"
	}
	return &helm.Error{Kind: helm.LimitExceeded, Message: fmt.Sprintf("%s exceeded the %s; %s", doing(req), limit, advice)}
}

// tooSlow is the error about a process killed before it had rendered, and busy for so long.
func tooSlow(req *helm.Request, busy time.Duration) *helm.Error {
	limit := req.Limits.RenderTime
	if busy >= limit/busyShare {
		return exceeds(req, fmt.Sprintf("time limit of %s for rendering", limit),
			"look for unbounded recursion or loops in templates")
	}
	why := "the API server is slow or does not answer, templates call the function lookup too often, or the machine is " +
		"overloaded"
	if req.Action == helm.Index {
		why = "the machine is overloaded"
	}
	return &helm.Error{Kind: helm.ClusterFailed, Message: fmt.Sprintf(
		"%s failed: it was not done within %s, mostly because of waiting: %s", doing(req), limit, why)}
}

// outOfMemory matches the message of Go's runtime at the end of a process without memory, or with too large a stack.
var outOfMemory = regexp.MustCompile(`(?m)^(fatal error|runtime): .*(out of memory|cannot allocate|stack overflow)`)

// verdict returns the reason for the end of a process without a last report. err is that for the end of its reports.
func verdict(req *helm.Request, state *os.ProcessState, stderr string, err error) *helm.Error {
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case state.ExitCode() == exitMemory, outOfMemory.MatchString(stderr):
		return exceeds(req, "memory limit of "+resource.NewQuantity(req.Limits.MemoryBytes, resource.BinarySI).String(),
			"look for unbounded recursion in templates, or very large or deeply nested values, objects or schemas")
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF): // and was killed for it
		return crash(req, fmt.Sprintf("invalid message from its process: %s", err))
	case ok && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return crash(req, "its process was killed, usually for lack of memory on the node or in the pod")
	default:
		return crash(req, fmt.Sprintf("its process ended (%s); see the log at level debug", state))
	}
}
