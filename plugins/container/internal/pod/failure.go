package pod

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reasons of failures.
const (
	// ReasonContainerFailed: main has ended with an exit code other than 0.
	ReasonContainerFailed = "ContainerFailed"
	// ReasonOutOfMemory: main was killed for too much memory, according to the kubelet.
	ReasonOutOfMemory = "OutOfMemory"
	// ReasonImage: the image of a container cannot be pulled.
	ReasonImage = "ImagePullFailed"
	// ReasonCannotStart: a container cannot be started.
	ReasonCannotStart = "ContainerCannotStart"
	// ReasonInitFailed: the input could not be brought to main.
	ReasonInitFailed = "InitFailed"
	// ReasonUnreachable: the API server cannot be reached from the Pod, so main was not started.
	ReasonUnreachable = "APIServerUnreachable"
	// ReasonRefused: the results of main cannot be kept.
	ReasonRefused = "OutputRefused"
	// ReasonResultLost: main has succeeded, but its exports are unknown.
	ReasonResultLost = "ResultLost"
	// ReasonDeleted: the Pod was deleted by another client.
	ReasonDeleted = "PodDeleted"
	// ReasonDeadline: the Pod has run for the whole time of its job.
	ReasonDeadline = "DeadlineExceeded"
	// ReasonPodFailed: Kubernetes has given the Pod up, such as by an eviction, without a reason of its own.
	ReasonPodFailed = "PodFailed"
)

const (
	// killed is the exit code of a killed process.
	killed = 137
	// oomKilled is the kubelet's reason for a container killed for its memory.
	oomKilled = "OOMKilled"
	// startError is containerd's reason for a container it could not start, such as because its image has no such
	// program, or because the kubelet has died meanwhile. A started process is killed then, after unknown progress.
	startError = "StartError"
	// clockSkew: main counts as ended by itself if it has ended at least this long before the request to end its Pod.
	// The clocks of the node and of the API server may differ, and both are precise to the second only.
	clockSkew = 5 * time.Second
)

// Failure is the reason of an unsuccessful run.
type Failure struct {
	Reason, Message string
	Codes           []landscaper.ErrorCode
	// LastWords are the last output of main, several lines, perhaps with secrets; empty for none.
	LastWords string
}

// failure returns the failure of an ended run; nil after a success.
func (f *Facts) failure() *Failure {
	p, name := f.Pod, nameOf(f.Pod)
	main := statusOf(p, layout.MainContainer).State.Terminated
	initial := statusOf(p, layout.InitContainer).State.Terminated
	succeeded := main != nil && main.ExitCode == 0 && endedByItself(p, main)
	switch {
	case succeeded && f.Report != nil && len(f.Report.Errors) == 0:
		return nil
	case succeeded && f.Report != nil:
		return configurationProblem(ReasonRefused,
			"container %s of %s has succeeded, but its results cannot be kept: %s",
			layout.MainContainer, name, strings.Join(f.Report.Errors, "; "))
	case f.GivenUp != nil:
		return f.GivenUp
	case p.Status.Reason == ReasonDeadline || f.TimedOut:
		return deadlineExceeded(p)
	case succeeded:
		return resultLost(p)
	case p.Status.Reason != "":
		return final(p, p.Status.Reason, "%s was given up by Kubernetes: %s", name,
			cmp.Or(p.Status.Message, p.Status.Reason))
	case p.DeletionTimestamp != nil:
		return final(p, ReasonDeleted, "%s was deleted while it ran%s; start a new job to run it again", name,
			disruption(p))
	case main != nil && main.Reason == startError:
		return notStarted(p, layout.MainContainer, main)
	case main != nil:
		return containerFailed(p, main)
	case initial != nil && initial.Reason == startError:
		return notStarted(p, layout.InitContainer, initial)
	case initial != nil && initial.ExitCode == layout.UnreachableExitCode:
		return final(p, ReasonUnreachable,
			"container %s was not started, because its results could not be uploaded: container %s of %s cannot reach "+
				"the API server of its cluster; allow that in the network policies of the namespace, "+
				"and start another job: %s", layout.MainContainer, layout.InitContainer, name, endOf(initial))
	case initial != nil && initial.ExitCode != 0:
		return final(p, ReasonInitFailed, "container %s of %s has failed: %s", layout.InitContainer, name,
			endOf(initial))
	default:
		return final(p, ReasonPodFailed, "%s has failed: %s", name,
			cmp.Or(p.Status.Message, "Kubernetes does not say why"))
	}
}

// endedByItself reports whether main has ended unasked: after a request to end, main may well end with exit code 0,
// with nothing done.
func endedByItself(p *corev1.Pod, main *corev1.ContainerStateTerminated) bool {
	if p.Status.Reason == "" && p.DeletionTimestamp == nil {
		return true
	}
	asked := askedToEnd(p)
	return !asked.IsZero() && !main.FinishedAt.IsZero() && main.FinishedAt.Time.Before(asked.Add(-clockSkew))
}

// askedToEnd returns the time of the request to end a Pod's containers; zero if unknown.
func askedToEnd(p *corev1.Pod) (asked time.Time) {
	note := func(t time.Time) {
		if asked.IsZero() || t.Before(asked) {
			asked = t
		}
	}
	if deleted := p.DeletionTimestamp; deleted != nil {
		grace := time.Duration(ptr.Deref(p.DeletionGracePeriodSeconds, 0)) * time.Second
		note(deleted.Add(-grace))
	}
	limit, started := p.Spec.ActiveDeadlineSeconds, p.Status.StartTime
	if p.Status.Reason == ReasonDeadline && limit != nil && started != nil {
		note(started.Add(time.Duration(*limit) * time.Second))
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			note(c.LastTransitionTime.Time)
		}
	}
	return asked
}

// deadlineExceeded returns the failure of a run after its time limit.
func deadlineExceeded(p *corev1.Pod) *Failure {
	message := nameOf(p) + " was stopped, because it has run for as long as the timeout of the deploy item allows"
	if c := statusOf(p, layout.MainContainer); c.State.Terminated == nil && c.State.Running == nil {
		container := layout.MainContainer
		if c.Image != "" {
			container += fmt.Sprintf(" with the image %q", c.Image)
		}
		message = fmt.Sprintf("%s was stopped, because container %s has not started "+
			"within the timeout of the deploy item", nameOf(p), container)
		if why := hindrance(p); why != "" {
			message += "; it has waited for " + why
		}
	}
	failure := final(p, ReasonDeadline, "%s", message)
	failure.Codes = []landscaper.ErrorCode{landscaper.ErrorTimeout, landscaper.ErrorNoRetry}
	return failure
}

// notStartable returns the failure of a container without hope for a start.
func notStartable(p *corev1.Pod, c *corev1.ContainerStatus) *Failure {
	w := c.State.Waiting
	reason, what := hindrances[w.Reason], "cannot be started"
	if reason == ReasonImage {
		what = fmt.Sprintf("cannot have its image %q", c.Image)
	}
	return configurationProblem(reason, "container %s of %s %s: %s: %s", c.Name, nameOf(p), what, w.Reason, w.Message)
}

// notStarted returns a failure without last words: the message is the node's.
func notStarted(p *corev1.Pod, container string, t *corev1.ContainerStateTerminated) *Failure {
	failure := final(p, ReasonCannotStart, "container %s of %s could not be started: %s", container, nameOf(p),
		cmp.Or(strings.TrimSpace(t.Message), t.Reason))
	failure.LastWords = ""
	return failure
}

func containerFailed(p *corev1.Pod, main *corev1.ContainerStateTerminated) *Failure {
	reason := cmp.Or(main.Reason, "no reason")
	if main.Reason == oomKilled {
		return final(p, ReasonOutOfMemory, "container %s of %s was killed for its use of memory "+
			"(exit code %d, %s); increase resources.limits.memory",
			layout.MainContainer, nameOf(p), main.ExitCode, reason)
	}
	perhaps := ""
	if main.ExitCode == killed && hasMemoryLimit(p) { // the kubelet does not always notice a lack of memory
		perhaps = "; it was killed, perhaps for its use of memory: try a higher resources.limits.memory"
	}
	return final(p, ReasonContainerFailed, "container %s of %s has failed with exit code %d (%s)%s",
		layout.MainContainer, nameOf(p), main.ExitCode, reason, perhaps)
}

func hasMemoryLimit(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == layout.MainContainer && !c.Resources.Limits.Memory().IsZero()
	})
}

// resultLost returns the failure of a run without a report. It has no last words: those of main are about other
// things.
func resultLost(p *corev1.Pod) *Failure {
	failure := final(p, ReasonResultLost, "container %s of %s has succeeded, but %s",
		layout.MainContainer, nameOf(p), notUploaded(p))
	failure.LastWords = ""
	return failure
}

// notUploaded returns the reason of the missing report.
func notUploaded(p *corev1.Pod) string {
	why := "it was ended before it could"
	if wait := statusOf(p, layout.WaitContainer).State.Terminated; wait != nil && wait.ExitCode != 0 {
		why = endOf(wait)
	}
	return fmt.Sprintf("container %s has not uploaded exports and state: %s", layout.WaitContainer, why)
}

// StateLost returns the reason of the loss of a run's state; empty if nothing is lost. The run is over; p is nil for
// a deleted Pod. A main ended by others, or never started, has left nothing to rely on.
func StateLost(p *corev1.Pod, report *layout.Report, r *v1alpha1.Run) string {
	switch {
	case report != nil && report.StateFailed:
		return strings.Join(report.Errors, "; ")
	case report != nil || p == nil:
		return ""
	}
	main := statusOf(p, layout.MainContainer).State.Terminated
	if main == nil || main.Reason == startError {
		return ""
	}
	wait := statusOf(p, layout.WaitContainer).State.Terminated
	if r.Restored == nil && wait != nil && strings.Contains(wait.Message, layout.NoState) {
		return ""
	}
	// The kubelet does not know whether a container it does not find has run.
	stopped := (r.TimedOut || p.Status.Reason == ReasonDeadline) && main.Reason != statusUnknown
	if stopped || endedByItself(p, main) {
		return notUploaded(p)
	}
	return ""
}

// endOf returns the last message of one of Pergola's own containers.
func endOf(t *corev1.ContainerStateTerminated) string {
	code := fmt.Sprintf("exit code %d (%s)", t.ExitCode, cmp.Or(t.Reason, "no reason"))
	message := strings.TrimSpace(t.Message)
	if message != "" && t.ExitCode == killed { // the message is no more than its last lines
		return code + ": " + message
	}
	return cmp.Or(message, code)
}

// LastWords returns the last output of a Pod's main; empty before its end, or if it has not run.
func LastWords(p *corev1.Pod) string {
	main := statusOf(p, layout.MainContainer).State.Terminated
	if main == nil || main.Reason == statusUnknown {
		return ""
	}
	return strings.TrimSpace(main.Message)
}

// disruption returns Kubernetes' reason for the deletion of a Pod.
func disruption(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
		}
	}
	return ""
}

// Gone returns the failure of a run with a vanished Pod, and so with an unknown end.
func Gone(namespace, name string) *Failure {
	return final(&corev1.Pod{}, ReasonDeleted, "Pod %s/%s was deleted and its finalizer removed, "+
		"so its outcome is unknown; start a new job to run it again", namespace, name)
}

// final returns a failure for the end of the job: a decision about a second run needs knowledge of the image.
func final(p *corev1.Pod, reason, format string, args ...any) *Failure {
	return &Failure{
		Reason: reason, Message: fmt.Sprintf(format, args...), Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry},
		LastWords: LastWords(p),
	}
}

func configurationProblem(reason, format string, args ...any) *Failure {
	return &Failure{
		Reason: reason, Message: fmt.Sprintf(format, args...),
		Codes: []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem},
	}
}

func nameOf(p *corev1.Pod) string { return fmt.Sprintf("Pod %s/%s", p.Namespace, p.Name) }
