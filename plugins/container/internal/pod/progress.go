package pod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

const (
	// lostAfter is for how long after a Pod should have been deleted its node may say nothing of it.
	lostAfter = 30 * time.Second
	// slackShare and maxSlack are how much of its time a Pod has left when it is given up because there is little of
	// it.
	slackShare = 5
	maxSlack   = 10 * time.Second

	// outliveTime is how long other containers may run when main has ended. It is more than clocks may differ by, so that
	// main counts as ended by itself when the Pod is deleted then.
	outliveTime = 2 * clockSkew

	// crashLoop is the reason of a container that ends again and again. Only the wait container is started again.
	crashLoop = "CrashLoopBackOff"
	// statusUnknown is the reason that the kubelet gives for a container that it does not find when its Pod has
	// stopped. The message is the kubelet's, too.
	statusUnknown = "ContainerStatusUnknown"
)

// hindrances are the reasons of containers that wait without much hope, and those of the failures that they lead to.
var hindrances = map[string]string{
	"ErrImagePull": ReasonImage, "ImagePullBackOff": ReasonImage, "ErrImageNeverPull": ReasonImage,
	"InvalidImageName":    ReasonImage,
	"RegistryUnavailable": ReasonImage, "ImageInspectError": ReasonImage, "SignatureValidationFailed": ReasonImage,
	"CreateContainerConfigError": ReasonCannotStart, "CreateContainerError": ReasonCannotStart,
	"RunContainerError": ReasonCannotStart, crashLoop: ReasonCannotStart,
}

// hopeless are those that no patience helps against.
var hopeless = map[string]bool{"ErrImageNeverPull": true, "InvalidImageName": true}

// Progress is how far a run has come.
type Progress struct {
	// Over: the run has ended. What it has left behind is complete, as far as there is anything.
	Over bool
	// Failure says why it has not succeeded; nil if it has, or is not over.
	Failure *Failure
	// WaitingFor is what it waits for, for the user, if it is not over.
	WaitingFor string
	// CheckAgain is when it may be over although nothing has changed; zero for never.
	CheckAgain time.Time
	// Hindered: a container cannot be started, which may pass.
	Hindered bool
	// Outliving are the containers that go on although main has ended, so that Kubernetes does not end the wait
	// container, which is to be told.
	Outliving []string
	// GiveUp is why the Pod is to be stopped, since its containers will never start; nil if there is no reason to. It
	// is not over before it has stopped: what hinders it may have gone at this very moment.
	GiveUp *Failure
}

// Facts are what is known of a run.
type Facts struct {
	Pod *corev1.Pod
	// Report is nil if the wait container has not uploaded one. It must have been read after the Pod.
	Report *layout.Report
	// HinderedSince is since when containers cannot be started; zero if they could when it was checked last.
	HinderedSince time.Time
	// Patience is for how long that may be so, if the Pod has the time.
	Patience time.Duration
	// TimedOut: the Pod is being deleted because the time of its job is over.
	TimedOut bool
	// GivenUp is why the Pod is being deleted if it was given up; nil if it was not.
	GivenUp *Failure
	Now     time.Time
}

// Progress tells how far the run has come.
func (f *Facts) Progress() Progress {
	if statusOf(f.Pod, layout.MainContainer).State.Terminated != nil && f.Report != nil || Stopped(f.Pod, f.Now) {
		return Progress{Over: true, Failure: f.failure()}
	}
	progress := Progress{WaitingFor: f.waitingFor(), CheckAgain: LostAt(f.Pod)}
	main := statusOf(f.Pod, layout.MainContainer).State
	if others := othersGoOn(f.Pod); len(others) > 0 && main.Terminated != nil && f.Pod.DeletionTimestamp == nil {
		if due := main.Terminated.FinishedAt.Add(outliveTime); f.Now.Before(due) {
			progress.CheckAgain = due
		} else {
			progress.Outliving = others
		}
		return progress
	}
	c := hindered(f.Pod)
	if f.Pod.DeletionTimestamp != nil || main.Running != nil || main.Terminated != nil || c == nil {
		return progress
	}
	// A registry that says no may say yes soon.
	if due := f.patientUntil(); !hopeless[c.State.Waiting.Reason] && f.Now.Before(due) {
		progress.CheckAgain, progress.Hindered = due, true
	} else {
		progress.GiveUp = notStartable(f.Pod, c)
	}
	return progress
}

// patientUntil is when a Pod that is hindered is given up: while it has some of its time left, after which the kubelet
// stops it and tells no more what has hindered it.
func (f *Facts) patientUntil() time.Time {
	since := f.HinderedSince
	if since.IsZero() {
		since = f.Now
	}
	until := since.Add(f.Patience)
	if end := TimeIsUp(f.Pod); !end.IsZero() {
		end = end.Add(-min(end.Sub(f.Pod.CreationTimestamp.Time)/slackShare, maxSlack))
		if end.Before(until) {
			return end
		}
	}
	return until
}

// TimeIsUp is when a Pod is to be stopped that has run for as long as its job may take; zero for never, and for one
// that is being deleted. Kubernetes counts from when a node has it.
func TimeIsUp(p *corev1.Pod) time.Time {
	if p.Spec.ActiveDeadlineSeconds == nil || p.DeletionTimestamp != nil {
		return time.Time{}
	}
	return p.CreationTimestamp.Add(time.Duration(*p.Spec.ActiveDeadlineSeconds) * time.Second)
}

// LostAt is when a Pod that is being deleted counts as stopped although its node does not say so; zero for one that is
// not being deleted.
func LostAt(p *corev1.Pod) time.Time {
	if p.DeletionTimestamp == nil {
		return time.Time{}
	}
	return p.DeletionTimestamp.Add(lostAfter)
}

// Stopped tells whether nothing of a Pod runs any more, nor will.
func Stopped(p *corev1.Pod, now time.Time) bool {
	runs := slices.ContainsFunc(statuses(p), func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	if phase := p.Status.Phase; (phase == corev1.PodSucceeded || phase == corev1.PodFailed) && !runs {
		return true
	}
	// Of one that is being deleted no node knows, or the one that did is lost.
	return p.DeletionTimestamp != nil && (p.Spec.NodeName == "" || now.After(LostAt(p)))
}

// othersGoOn are the ordinary containers of a Pod that have not ended, but for main: those of others, such as a
// webhook's.
func othersGoOn(p *corev1.Pod) (names []string) {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated == nil && c.Name != layout.MainContainer {
			names = append(names, c.Name)
		}
	}
	return names
}

func statuses(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
}

// statusOf returns that of a container; an empty one if there is none yet.
func statusOf(p *corev1.Pod, name string) corev1.ContainerStatus {
	for _, c := range statuses(p) {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{Name: name}
}

// hindered returns the first container of a Pod that waits without much hope; nil if none does.
func hindered(p *corev1.Pod) *corev1.ContainerStatus {
	for _, name := range []string{layout.InitContainer, layout.WaitContainer, layout.MainContainer} {
		if c := statusOf(p, name); isHindered(&c) {
			return &c
		}
	}
	return nil
}

func isHindered(c *corev1.ContainerStatus) bool {
	w := c.State.Waiting
	return w != nil && hindrances[w.Reason] != "" && (w.Reason != crashLoop || c.Name == layout.WaitContainer)
}

// waitingFor is what a Pod that is not over waits for.
func (f *Facts) waitingFor() string {
	p, name := f.Pod, nameOf(f.Pod)
	main := statusOf(p, layout.MainContainer).State
	switch why := hindrance(p); {
	case p.DeletionTimestamp != nil && f.GivenUp != nil:
		return fmt.Sprintf("%s to stop: %s", name, f.GivenUp.Message)
	case p.DeletionTimestamp != nil && f.TimedOut:
		if why != "" {
			why = "; it has waited for " + why
		}
		return name + " to stop, because the timeout of the deploy item is nearly over" + why
	case p.DeletionTimestamp != nil && main.Terminated != nil:
		return fmt.Sprintf("exports and state of %s to be uploaded, while it stops", name)
	case p.DeletionTimestamp != nil:
		return name + " to stop, which somebody has deleted"
	case why != "":
		return why
	case p.Status.Reason != "":
		return fmt.Sprintf("%s to stop: %s", name, p.Status.Reason)
	case main.Terminated != nil:
		what := fmt.Sprintf("exports and state of %s to be uploaded", name)
		if others := othersGoOn(p); len(others) > 0 {
			what += "; beside its container main, which has ended, these have not: " + strings.Join(others, ", ")
		}
		return what
	case main.Running != nil:
		return fmt.Sprintf("container %s of %s to end, which has run since %s", layout.MainContainer, name,
			main.Running.StartedAt.UTC().Format(time.RFC3339))
	case p.Spec.NodeName == "":
		return name + " to get a node"
	default:
		return fmt.Sprintf("container %s of %s to start", layout.MainContainer, name)
	}
}

// hindrance is what a Pod waits for that has not started, with what Kubernetes says of why it has not; empty if that
// says nothing.
func hindrance(p *corev1.Pod) string {
	if c := hindered(p); c != nil {
		w := c.State.Waiting
		return fmt.Sprintf("container %s of %s to start: %s: %s", c.Name, nameOf(p), w.Reason, w.Message)
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && p.Spec.NodeName == "" {
			return fmt.Sprintf("%s to get a node: %s", nameOf(p), c.Message)
		}
	}
	return ""
}

// LastKnown returns a Pod that is being stopped with what was known last of its containers that wait to start: the
// kubelet forgets why they wait, and says in the end that it cannot find them. last is what was seen before, nil if
// nothing.
func LastKnown(p *corev1.Pod, last *v1alpha1.PodStatus) *corev1.Pod {
	if last == nil || p.DeletionTimestamp == nil && p.Status.Reason == "" && p.Status.Phase != corev1.PodFailed {
		return p
	}
	known := map[string]*corev1.ContainerState{
		layout.InitContainer: last.InitContainerStatus.State, layout.WaitContainer: last.WaitContainerStatus.State,
		layout.MainContainer: last.ContainerStatus.State,
	}
	p = p.DeepCopy()
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i, c := range all {
			forgotten := c.State.Terminated != nil && c.State.Terminated.Reason == statusUnknown ||
				c.State.Waiting != nil && !isHindered(&c)
			if state := known[c.Name]; forgotten && state != nil && state.Waiting != nil {
				all[i].State = *state
			}
		}
	}
	return p
}
