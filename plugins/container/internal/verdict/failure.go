package verdict

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// hindrances are the reasons of containers that wait without much hope.
var hindrances = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "ErrImageNeverPull": true, "InvalidImageName": true, "RegistryUnavailable": true,
	"ImageInspectError": true, "SignatureValidationFailed": true,
	"CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true,
}

// hopeless are those that no patience helps against.
var hopeless = map[string]bool{"ErrImageNeverPull": true, "InvalidImageName": true}

// aboutStart are those that are not about an image.
var aboutStart = map[string]bool{"CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true, crashLoop: true}

// crashLoop is the reason of a container that ends again and again. Only the wait container is started again.
const crashLoop = "CrashLoopBackOff"

func isHindrance(container, reason string) bool {
	return hindrances[reason] || container == layout.WaitContainer && reason == crashLoop
}

// slackShare and mostSlack are how much of its time a Pod has left when it is given up because there is little of it.
const (
	slackShare = 5
	mostSlack  = 10 * time.Second
)

// stuck returns the failure of a Pod that will not start, or when that is to be looked at again: a registry that says no may say yes soon.
func stuck(pod *corev1.Pod, f *Facts) (*Failure, time.Time) {
	if main := statusOf(pod, layout.MainContainer).State; main.Running != nil || main.Terminated != nil {
		return nil, time.Time{}
	}
	for _, name := range []string{layout.InitContainer, layout.WaitContainer, layout.MainContainer} {
		status := statusOf(pod, name)
		w := status.State.Waiting
		if w == nil || !isHindrance(name, w.Reason) {
			continue
		}
		if due := patientUntil(pod, f); !hopeless[w.Reason] && f.Now.Before(due) {
			return nil, due
		}
		reason, what := ReasonImage, fmt.Sprintf("cannot have its image %q", status.Image)
		if aboutStart[w.Reason] {
			reason, what = ReasonCannotStart, "cannot be started"
		}
		return &Failure{
			Reason: reason, Codes: configurationProblem(),
			Message: fmt.Sprintf("container %s of %s %s: %s: %s", name, nameOf(pod), what, w.Reason, w.Message),
		}, time.Time{}
	}
	return nil, time.Time{}
}

// patientUntil is when a Pod that is hindered is given up: while it has some of its time left, after which the kubelet stops
// it and tells no more what has hindered it.
func patientUntil(pod *corev1.Pod, f *Facts) time.Time {
	since := f.HinderedSince
	if since.IsZero() {
		since = f.Now
	}
	until := since.Add(f.Patience)
	if end := TimeIsUp(pod); !end.IsZero() {
		end = end.Add(-min(end.Sub(pod.CreationTimestamp.Time)/slackShare, mostSlack))
		if end.Before(until) {
			return end
		}
	}
	return until
}

// statusUnknown is the reason that the kubelet gives for a container that it does not find when its Pod has stopped. The
// message is the kubelet's, too.
const statusUnknown = "ContainerStatusUnknown"

// LastKnown returns a Pod that is being stopped with what was known last of its containers that wait to start: the kubelet
// forgets why they wait, and says in the end that it cannot find them. last is what was seen before, nil if nothing.
func LastKnown(pod *corev1.Pod, last *v1alpha1.PodStatus) *corev1.Pod {
	if last == nil || pod.DeletionTimestamp == nil && pod.Status.Reason == "" && pod.Status.Phase != corev1.PodFailed {
		return pod
	}
	known := map[string]*corev1.ContainerState{
		layout.InitContainer: last.InitContainerStatus.State, layout.WaitContainer: last.WaitContainerStatus.State,
		layout.MainContainer: last.ContainerStatus.State,
	}
	pod = pod.DeepCopy()
	for _, all := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i, c := range all {
			lost := c.State.Terminated != nil && c.State.Terminated.Reason == statusUnknown ||
				c.State.Waiting != nil && !isHindrance(c.Name, c.State.Waiting.Reason)
			if state := known[c.Name]; lost && state != nil && state.Waiting != nil {
				all[i].State = *state
			}
		}
	}
	return pod
}

// failureOf returns why a run that is over has not succeeded; nil if it has.
func failureOf(pod *corev1.Pod, f *Facts) *Failure {
	report := f.Report
	main := statusOf(pod, layout.MainContainer).State.Terminated
	initial := statusOf(pod, layout.InitContainer).State.Terminated
	switch {
	case main != nil && main.ExitCode == 0 && report != nil && len(report.Errors) == 0 && endedByItself(pod, main):
		return nil
	case main != nil && main.ExitCode == 0 && report != nil && endedByItself(pod, main):
		return &Failure{
			Reason: ReasonRefused, Codes: configurationProblem(),
			Message: fmt.Sprintf("container %s of %s has succeeded, but what it has left behind cannot be kept: %s",
				layout.MainContainer, nameOf(pod), strings.Join(report.Errors, "; ")),
		}
	case f.GivenUp != nil:
		return f.GivenUp
	case pod.Status.Reason == ReasonDeadline || f.TimedOut:
		return deadlineExceeded(pod, main)
	case main != nil && main.ExitCode == 0 && endedByItself(pod, main):
		return resultLost(pod)
	case pod.Status.Reason != "":
		return final(pod.Status.Reason, said(main), "%s was given up by Kubernetes: %s", nameOf(pod), cmp.Or(pod.Status.Message, pod.Status.Reason))
	case pod.DeletionTimestamp != nil:
		return final(ReasonDeleted, said(main), "%s was deleted while it ran%s; start a new job to run it again", nameOf(pod), disruption(pod))
	case main != nil && main.Reason == startError:
		return notStarted(pod, layout.MainContainer, main)
	case main != nil:
		return containerFailed(pod, main)
	case initial != nil && initial.Reason == startError:
		return notStarted(pod, layout.InitContainer, initial)
	case initial != nil && initial.ExitCode != 0:
		return final(ReasonInitFailed, "", "container %s of %s has failed: %s", layout.InitContainer, nameOf(pod), endOf(initial))
	default:
		return final(ReasonPodFailed, "", "%s has failed: %s", nameOf(pod), cmp.Or(pod.Status.Message, "Kubernetes does not say why"))
	}
}

// deadlineExceeded is the failure of a run that has taken too long.
func deadlineExceeded(pod *corev1.Pod, main *corev1.ContainerStateTerminated) *Failure {
	message := nameOf(pod) + " was stopped, because it has run for as long as the timeout of the deploy item allows"
	if status := statusOf(pod, layout.MainContainer); main == nil && status.State.Running == nil {
		container := layout.MainContainer
		if status.Image != "" {
			container += fmt.Sprintf(", whose image is %q,", status.Image)
		}
		message = fmt.Sprintf("%s was stopped, because container %s has not started within the timeout of the deploy item",
			nameOf(pod), container)
		if why := hindrance(pod); why != "" {
			message += "; it has waited for " + why
		}
	}
	return &Failure{
		Reason: ReasonDeadline, Codes: []landscaper.ErrorCode{landscaper.ErrorTimeout, landscaper.ErrorNoRetry}, Said: said(main), Message: message,
	}
}

// doubt is for how long before a Pod was asked to end its main must have ended, to have ended by itself: the clocks of the node and of the API
// server may differ, and both tell seconds only.
const doubt = 5 * time.Second

// endedByItself tells whether main has ended before anybody has asked it to: one that is asked may well end with exit code 0, with nothing
// done.
func endedByItself(pod *corev1.Pod, main *corev1.ContainerStateTerminated) bool {
	if pod.Status.Reason != "" {
		return false
	}
	if pod.DeletionTimestamp == nil {
		return true
	}
	asked := pod.DeletionTimestamp.Time
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		asked = asked.Add(-time.Duration(*seconds) * time.Second)
	}
	return !main.FinishedAt.IsZero() && main.FinishedAt.Before(&metav1.Time{Time: asked.Add(-doubt)})
}

// startError is the reason that containerd gives for a container that it could not start, such as because its image has no such program, or because
// the kubelet has died meanwhile. What was started is killed then, so that nobody knows how far it has come.
const startError = "StartError"

func notStarted(pod *corev1.Pod, container string, t *corev1.ContainerStateTerminated) *Failure {
	return final(ReasonCannotStart, "", "container %s of %s could not be started: %s", container, nameOf(pod), cmp.Or(strings.TrimSpace(t.Message), t.Reason))
}

func containerFailed(pod *corev1.Pod, main *corev1.ContainerStateTerminated) *Failure {
	// Kubernetes does not always see that it was memory.
	if main.Reason == "OOMKilled" || main.ExitCode == killed {
		return final(ReasonOutOfMemory, said(main), "container %s of %s was killed (exit code %d, %s), by all accounts because it has taken more memory than it may; "+
			"give it more in resources.limits.memory", layout.MainContainer, nameOf(pod), main.ExitCode, cmp.Or(main.Reason, "no reason"))
	}
	return final(ReasonContainerFailed, said(main), "container %s of %s has failed with exit code %d (%s)", layout.MainContainer, nameOf(pod), main.ExitCode,
		cmp.Or(main.Reason, "no reason"))
}

// resultLost is the failure of a run whose wait container has not reported.
func resultLost(pod *corev1.Pod) *Failure {
	why := "it was ended before it could"
	if wait := statusOf(pod, layout.WaitContainer).State.Terminated; wait != nil && wait.ExitCode != 0 {
		why = endOf(wait)
	}
	return final(ReasonResultLost, "", "container %s of %s has succeeded, but container %s has not uploaded exports and state: %s",
		layout.MainContainer, nameOf(pod), layout.WaitContainer, why)
}

// endOf is what a container of Pergola's own says at its end.
func endOf(t *corev1.ContainerStateTerminated) string {
	return cmp.Or(strings.TrimSpace(t.Message), fmt.Sprintf("exit code %d (%s)", t.ExitCode, cmp.Or(t.Reason, "no reason")))
}

// Said is what main of a Pod has said at its end; empty if it has not ended.
func Said(pod *corev1.Pod) string { return said(statusOf(pod, layout.MainContainer).State.Terminated) }

// said is what main has said at its end; empty if it has not run.
func said(main *corev1.ContainerStateTerminated) string {
	if main == nil || main.Reason == statusUnknown {
		return ""
	}
	return strings.TrimSpace(main.Message)
}

// disruption is what Kubernetes says of why it has deleted a Pod.
func disruption(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf(" (%s: %s)", c.Reason, c.Message)
		}
	}
	return ""
}

// Gone is the failure of a run whose Pod was there and is not any more, so that nobody knows how it has ended.
func Gone(namespace, name string) *Failure {
	return final(ReasonDeleted, "", "Pod %s/%s is gone, and nobody knows how it has ended: somebody has deleted it and taken its finalizer off; "+
		"start a new job to run it again", namespace, name)
}

// final is a failure that ends the job: to run an image a second time is for somebody to decide who knows what it does.
func final(reason, said, format string, args ...any) *Failure {
	return &Failure{
		Reason: reason, Codes: []landscaper.ErrorCode{landscaper.ErrorNoRetry}, Said: said, Message: fmt.Sprintf(format, args...),
	}
}

func configurationProblem() []landscaper.ErrorCode {
	return []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}
}

func nameOf(pod *corev1.Pod) string { return fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name) }
