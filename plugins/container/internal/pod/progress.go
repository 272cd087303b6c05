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
	// lostAfter is the accepted silence of a node after the time for the deletion of its Pod.
	lostAfter = 30 * time.Second
	// slackShare and maxSlack bound the remaining time of a Pod given up shortly before its end.
	slackShare = 5
	maxSlack   = 10 * time.Second

	// outliveTime is the time of other containers to run after main. It is more than the possible difference of clocks,
	// so main counts as ended by itself at a deletion of the Pod.
	outliveTime = 2 * clockSkew

	// crashLoop is the reason of a container ending again and again. Only the wait container is started again.
	crashLoop = "CrashLoopBackOff"
	// statusUnknown is the kubelet's reason for a container missing after the stop of its Pod. The message is the
	// kubelet's, too.
	statusUnknown = "ContainerStatusUnknown"
)

// hindrances are the reasons of containers in waiting without much hope, and the reasons of the resulting failures.
var hindrances = map[string]string{
	"ErrImagePull": ReasonImage, "ImagePullBackOff": ReasonImage, "ErrImageNeverPull": ReasonImage,
	"InvalidImageName":    ReasonImage,
	"RegistryUnavailable": ReasonImage, "ImageInspectError": ReasonImage, "SignatureValidationFailed": ReasonImage,
	"CreateContainerConfigError": ReasonCannotStart, "CreateContainerError": ReasonCannotStart,
	"RunContainerError": ReasonCannotStart, crashLoop: ReasonCannotStart,
}

// hopeless are the hindrances beyond any patience.
var hopeless = map[string]bool{"ErrImageNeverPull": true, "InvalidImageName": true}

// Progress is the progress of a run.
type Progress struct {
	// Over: the run has ended. Its results are complete, as far as there are any.
	Over bool
	// Failure is the reason of a failed run; nil for a successful one, and before the end.
	Failure *Failure
	// WaitingFor is the awaited event, for the user; empty after the end.
	WaitingFor string
	// CheckAgain is the time of a possible end without any change; zero for never.
	CheckAgain time.Time
	// Hindered: a container cannot be started; this may pass.
	Hindered bool
	// Outliving are the containers still running after main. Kubernetes does not end the wait container then; it has to
	// be told.
	Outliving []string
	// GiveUp is the reason to stop the Pod, because its containers will never start; nil for none. The run is not over
	// before the stop of the Pod: the hindrance may have gone at this very moment.
	GiveUp *Failure
}

// Facts are the known facts about a run.
type Facts struct {
	Pod *corev1.Pod
	// Report is nil before its upload by the wait container. It must have been read after the Pod.
	Report *layout.Report
	// HinderedSince is the beginning of a hindrance; zero if there was none at the last check.
	HinderedSince time.Time
	// Patience bounds the time of a hindrance, if the Pod has the time.
	Patience time.Duration
	// TimedOut: the Pod is being deleted because the time of its job is over.
	TimedOut bool
	// GivenUp is the reason of the deletion of a Pod given up; nil for others.
	GivenUp *Failure
	Now     time.Time
}

// Progress returns the progress of the run.
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
	// A registry may refuse now and answer soon.
	if due := f.patientUntil(); !hopeless[c.State.Waiting.Reason] && f.Now.Before(due) {
		progress.CheckAgain, progress.Hindered = due, true
	} else {
		progress.GiveUp = notStartable(f.Pod, c)
	}
	return progress
}

// patientUntil returns the time to give a hindered Pod up: before the end of its own time, since the kubelet then
// stops it and no longer shows the hindrance.
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

// TimeIsUp returns the time to stop a Pod at the end of its job's time; zero for never, and for a Pod under deletion.
// Kubernetes counts from the arrival on a node.
func TimeIsUp(p *corev1.Pod) time.Time {
	if p.Spec.ActiveDeadlineSeconds == nil || p.DeletionTimestamp != nil {
		return time.Time{}
	}
	return p.CreationTimestamp.Add(time.Duration(*p.Spec.ActiveDeadlineSeconds) * time.Second)
}

// LostAt returns the time from which a Pod under deletion counts as stopped without a word of its node; zero for
// other Pods.
func LostAt(p *corev1.Pod) time.Time {
	if p.DeletionTimestamp == nil {
		return time.Time{}
	}
	return p.DeletionTimestamp.Add(lostAfter)
}

// Stopped reports whether nothing of a Pod runs any more, nor will.
func Stopped(p *corev1.Pod, now time.Time) bool {
	runs := slices.ContainsFunc(statuses(p), func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
	if phase := p.Status.Phase; (phase == corev1.PodSucceeded || phase == corev1.PodFailed) && !runs {
		return true
	}
	// Under deletion, a Pod without a node has never started, and after lostAfter its node is lost.
	return p.DeletionTimestamp != nil && (p.Spec.NodeName == "" || now.After(LostAt(p)))
}

// othersGoOn returns the ordinary containers of a Pod still running, except main: those of other clients, such as a
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

// statusOf returns the status of a container; an empty one if there is none yet.
func statusOf(p *corev1.Pod, name string) corev1.ContainerStatus {
	for _, c := range statuses(p) {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{Name: name}
}

// hindered returns the first container of a Pod in waiting without much hope; nil for none.
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

// waitingFor returns the awaited event of a Pod before its end.
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
		return name + " to stop after its deletion"
	case why != "":
		return why
	case p.Status.Reason != "":
		return fmt.Sprintf("%s to stop: %s", name, p.Status.Reason)
	case main.Terminated != nil:
		what := fmt.Sprintf("exports and state of %s to be uploaded", name)
		if others := othersGoOn(p); len(others) > 0 {
			what += "; its container main has ended, but these have not: " + strings.Join(others, ", ")
		}
		return what
	case main.Running != nil:
		return fmt.Sprintf("container %s of %s to end, running since %s", layout.MainContainer, name,
			main.Running.StartedAt.UTC().Format(time.RFC3339))
	case p.Spec.NodeName == "":
		return name + " to get a node"
	default:
		return fmt.Sprintf("container %s of %s to start", layout.MainContainer, name)
	}
}

// hindrance returns the awaited event of a Pod not yet started, with Kubernetes' explanation; empty without one.
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

// LastKnown returns a stopping Pod with the last known states of its containers in waiting: the kubelet forgets their
// hindrances, and in the end reports the containers as missing. last is the previous status, or nil.
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
