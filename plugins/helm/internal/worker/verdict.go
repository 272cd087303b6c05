package worker

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// Exit codes of a worker that has not said how it went.
const (
	exitFailed   = 1
	exitOrphaned = 3
	exitMemory   = 4
)

// busyShare is the share of the time for rendering that a chart must have used of a processor for it to be to blame
// that there was not enough of it. What has waited for the target, or for a processor, has used less.
const busyShare = 10

// renderDeadline is how long after its request a process must have rendered. It is more than Limits.RenderTime: the
// process itself knows better when it begins to load and to render, and what it waits for meanwhile; this is for one
// that has lost control.
func renderDeadline(req *helm.Request) time.Duration { return 2*req.Limits.RenderTime + time.Second }

// doing says what a request was about, as the beginning of a sentence.
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

func exceedsMemory(req *helm.Request) *helm.Error {
	return exceeds(req, fmt.Sprintf("%s of memory; a template that renders without an end does, or values that are too large",
		size(req.Limits.MemoryBytes)))
}

func exceedsSize(req *helm.Request) *helm.Error {
	return exceeds(req, fmt.Sprintf("the chart is rendered to far more than %s; have it render less, or deploy it as several charts",
		size(req.Limits.RenderedBytes)))
}

// tooSlow is for a process that was killed because it had not rendered in time, in which it was busy for so long.
func tooSlow(req *helm.Request, busy time.Duration) *helm.Error {
	limit := req.Limits.RenderTime
	if busy >= limit/busyShare {
		return exceeds(req, fmt.Sprintf("%s to render; a template that renders without an end does", limit))
	}
	if req.Kubeconfig == nil {
		return crash(req, fmt.Sprintf("the chart was not rendered within %s, for want of a processor", renderDeadline(req)))
	}
	return &helm.Error{Kind: helm.ClusterFailed, Message: fmt.Sprintf("%s has failed: the chart was not rendered within %s, most of which was spent waiting; "+
		"the API server is slow or does not answer, or templates ask it too much with the function lookup", doing(req), renderDeadline(req))}
}

// verdict says why a process has ended that has not said it itself.
func verdict(req *helm.Request, state *os.ProcessState, died death) *helm.Error {
	switch {
	case state.ExitCode() == exitMemory, died == deathMemory:
		return exceedsMemory(req)
	case died == deathStack:
		return exceeds(req, "a stack of "+size(maxStack(req.Limits.MemoryBytes))+
			"; templates that call themselves without an end do, or values, objects or a schema that are nested too deep")
	case state.Exited() && state.ExitCode() == 0:
		return crash(req, "its process has ended without a result")
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		if status.Signal() == syscall.SIGKILL {
			return crash(req, "its process was killed; mostly that is since the machine, or the pod, is short of memory")
		}
		return crash(req, fmt.Sprintf("its process was ended by a signal (%s)", status.Signal()))
	}
	switch died {
	case deathPanic:
		return crash(req, "its process has ended with a panic, which is a mistake in the deployer or in Helm; the log has more at level debug")
	case deathFatal:
		return crash(req, "its process has ended with a fatal error of the Go runtime; the log has more at level debug")
	default:
		return crash(req, fmt.Sprintf("its process has ended with exit code %d", state.ExitCode()))
	}
}

// size writes a number of bytes for people.
func size(bytes int64) string {
	for _, unit := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if bytes >= unit.bytes && bytes%unit.bytes == 0 {
			return fmt.Sprintf("%d %s", bytes/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// waitFor is how long a process that says nothing any more may take to end by itself, so that it is known why.
const waitFor = 2 * time.Second
