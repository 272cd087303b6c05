// Package verdict judges a run by what its Pod and its result show: whether it is over, what it waits for, and why it has failed.
package verdict

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reasons of failures.
const (
	// ReasonContainerFailed: main has ended with an exit code other than 0.
	ReasonContainerFailed = "ContainerFailed"
	// ReasonOutOfMemory: main was killed, by all accounts because it took more memory than it may.
	ReasonOutOfMemory = "OutOfMemory"
	// ReasonImage: the image of a container cannot be pulled.
	ReasonImage = "ImagePullFailed"
	// ReasonCannotStart: a container cannot be started.
	ReasonCannotStart = "ContainerCannotStart"
	// ReasonInitFailed: the input could not be brought to main.
	ReasonInitFailed = "InitFailed"
	// ReasonRefused: what main has left behind cannot be kept.
	ReasonRefused = "OutputRefused"
	// ReasonResultLost: main has ended well, but nobody knows with which exports.
	ReasonResultLost = "ResultLost"
	// ReasonDeleted: somebody has deleted the Pod.
	ReasonDeleted = "PodDeleted"
	// ReasonDeadline: the Pod has run for as long as the job may take.
	ReasonDeadline = "DeadlineExceeded"
	// ReasonPodFailed: Kubernetes has given the Pod up, such as by an eviction, and says no reason of its own.
	ReasonPodFailed = "PodFailed"
)

// killed is the exit code of a process that was killed.
const killed = 137

// goneAfter is for how long after a Pod should have been deleted its node may say nothing of it.
const goneAfter = 30 * time.Second

// Verdict is how things stand with a run.
type Verdict struct {
	// Over: the run has ended. What it has left behind is complete, as far as there is anything.
	Over bool
	// Failure says why it has not succeeded; nil if it has, or is not over.
	Failure *Failure
	// WaitingFor is what it waits for, for the user, if it is not over.
	WaitingFor string
	// LookAgain is when it may be over although nothing has changed; zero for never.
	LookAgain time.Time
	// Hindered: a container cannot be started, which may pass.
	Hindered bool
	// GiveUp is why the Pod is to be stopped, since its containers will never start; nil if there is no reason to. It is not over before it
	// has stopped: what hinders it may have gone at this very moment.
	GiveUp *Failure
}

// Facts are what is known of a run beside its Pod.
type Facts struct {
	// Report is nil if the wait container has not uploaded one. It must have been read after the Pod.
	Report *layout.Report
	// HinderedSince is since when containers cannot be started; zero if they could when somebody looked last.
	HinderedSince time.Time
	// Patience is for how long that may be so, if the Pod has the time.
	Patience time.Duration
	// TimedOut: the Pod is being deleted because the time of its job is over.
	TimedOut bool
	// GivenUp is why the Pod is being deleted if it was given up; nil if it was not.
	GivenUp *Failure
	Now     time.Time
}

// Failure is why a run has not succeeded.
type Failure struct {
	Reason, Message string
	Codes           []landscaper.ErrorCode
	// Said is what main has said at its end, several lines, which may hold secrets; empty if it has said nothing.
	Said string
}

// Pod judges a run.
func Pod(pod *corev1.Pod, f Facts) Verdict {
	main := statusOf(pod, layout.MainContainer)
	if main.State.Terminated != nil && f.Report != nil || Stopped(pod, f.Now) {
		return Verdict{Over: true, Failure: failureOf(pod, &f)}
	}
	v := Verdict{WaitingFor: waitingFor(pod, &f), LookAgain: LostAt(pod)}
	if pod.DeletionTimestamp != nil {
		return v
	}
	if failure, due := stuck(pod, &f); failure != nil {
		v.GiveUp = failure
	} else if !due.IsZero() {
		v.LookAgain, v.Hindered = due, true
	}
	return v
}

// TimeIsUp is when a Pod is to be stopped that has run for as long as its job may take; zero for never, and for one that is being deleted.
// Kubernetes counts from when a node has it.
func TimeIsUp(pod *corev1.Pod) time.Time {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.DeletionTimestamp != nil {
		return time.Time{}
	}
	return pod.CreationTimestamp.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// LostAt is when a Pod that is being deleted counts as stopped although its node does not say so; zero for one that is not being deleted.
func LostAt(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	return pod.DeletionTimestamp.Add(goneAfter)
}

// Stopped tells whether nothing of a Pod runs any more, nor will.
func Stopped(pod *corev1.Pod, now time.Time) bool {
	if phase := pod.Status.Phase; (phase == corev1.PodSucceeded || phase == corev1.PodFailed) && !runs(pod) {
		return true
	}
	if pod.DeletionTimestamp == nil {
		return false
	}
	// No node has it, or the one that had it is lost.
	return pod.Spec.NodeName == "" || now.After(LostAt(pod))
}

func runs(pod *corev1.Pod) bool {
	for _, all := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range all {
			if c.State.Running != nil {
				return true
			}
		}
	}
	return false
}

// statusOf returns that of a container; an empty one if there is none yet.
func statusOf(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, all := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, c := range all {
			if c.Name == name {
				return c
			}
		}
	}
	return corev1.ContainerStatus{Name: name}
}

// waitingFor is what a Pod that is not over waits for.
func waitingFor(pod *corev1.Pod, f *Facts) string {
	name := nameOf(pod)
	main := statusOf(pod, layout.MainContainer)
	switch why := hindrance(pod); {
	case pod.DeletionTimestamp != nil && f.GivenUp != nil:
		return fmt.Sprintf("%s to stop: %s", name, f.GivenUp.Message)
	case pod.DeletionTimestamp != nil && f.TimedOut:
		if why != "" {
			why = "; it has waited for " + why
		}
		return name + " to stop, because the timeout of the deploy item is nearly over" + why
	case pod.DeletionTimestamp != nil:
		return name + " to stop, which somebody has deleted"
	case why != "":
		return why
	case pod.Status.Reason != "":
		return fmt.Sprintf("%s to stop: %s", name, pod.Status.Reason)
	case main.State.Terminated != nil:
		return fmt.Sprintf("exports and state of %s to be uploaded", name)
	case main.State.Running != nil:
		return fmt.Sprintf("container %s of %s to end, which has run since %s", layout.MainContainer, name,
			main.State.Running.StartedAt.UTC().Format(time.RFC3339))
	case pod.Spec.NodeName == "":
		return name + " to get a node"
	default:
		return fmt.Sprintf("container %s of %s to start", layout.MainContainer, name)
	}
}

// hindrance is what a Pod waits for that has not started, with what Kubernetes says of why it has not; empty if that says nothing.
func hindrance(pod *corev1.Pod) string {
	name := nameOf(pod)
	for _, container := range []string{layout.InitContainer, layout.WaitContainer, layout.MainContainer} {
		if w := statusOf(pod, container).State.Waiting; w != nil && isHindrance(container, w.Reason) {
			return fmt.Sprintf("container %s of %s to start: %s: %s", container, name, w.Reason, w.Message)
		}
	}
	if pod.Spec.NodeName != "" {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s to get a node: %s", name, c.Message)
		}
	}
	return ""
}
