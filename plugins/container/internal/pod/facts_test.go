package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// change is a change of the facts about a run.
type change func(*Facts)

// facts are those about a Pod on a node, with changes.
func facts(changes ...change) *Facts {
	started := at(0)
	f := &Facts{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "runs", Name: "shop", CreationTimestamp: started},
			Spec:       corev1.PodSpec{NodeName: "node"},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started},
		},
		HinderedSince: began, Patience: time.Minute, Now: began,
	}
	for _, c := range changes {
		c(f)
	}
	return f
}

// at is the time so many seconds after the beginning; so are the seconds of all changes.
func at(seconds int) metav1.Time {
	return metav1.NewTime(began.Add(time.Duration(seconds) * time.Second))
}

func after(seconds int) change { return func(f *Facts) { f.Now = at(seconds).Time } }

func timedOut(f *Facts) { f.TimedOut = true }

func givenUp(f *Facts) {
	f.GivenUp = &Failure{
		Reason: "Given", Message: "no image", Codes: []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem},
	}
}

func reported(errors ...string) change {
	return func(f *Facts) { f.Report = &layout.Report{Errors: errors} }
}

func pending(f *Facts) { f.Pod.Status.Phase = corev1.PodPending }
func failed(f *Facts)  { f.Pod.Status.Phase = corev1.PodFailed }

func reason(r, message string) change {
	return func(f *Facts) { f.Pod.Status.Reason, f.Pod.Status.Message = r, message }
}

// deleted: the containers were asked to end 300 seconds before.
func deleted(seconds int) change {
	return func(f *Facts) {
		f.Pod.DeletionTimestamp, f.Pod.DeletionGracePeriodSeconds = new(at(seconds)), new(int64(300))
	}
}

// finished says when main has ended.
func finished(seconds int) change {
	return func(f *Facts) { f.Pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = at(seconds) }
}

// within says how long the Pod may run.
func within(seconds int) change {
	return func(f *Facts) { f.Pod.Spec.ActiveDeadlineSeconds = new(int64(seconds)) }
}

func withoutNode(message string) change {
	return func(f *Facts) {
		f.Pod.Spec.NodeName, f.Pod.Status.Phase = "", corev1.PodPending
		if message != "" {
			f.Pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message},
			}
		}
	}
}

func disrupted(seconds int, why, message string) change {
	return func(f *Facts) {
		f.Pod.Status.Conditions = append(f.Pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: at(seconds),
			Reason: why, Message: message,
		})
	}
}

// state adds a container; "init" and "wait" are those before main.
func state(container string, s corev1.ContainerState) change {
	return func(f *Facts) {
		status := corev1.ContainerStatus{Name: container, Image: "image:1", State: *s.DeepCopy()}
		all := &f.Pod.Status.ContainerStatuses
		if container == layout.InitContainer || container == layout.WaitContainer {
			all = &f.Pod.Status.InitContainerStatuses
		}
		*all = append(*all, status)
	}
}

func running(container string) change {
	return state(container, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(0)}})
}

func waits(container, why, message string) change {
	return state(container, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why, Message: message}})
}

func ended(container string, code int32, why, message string) change {
	return state(container, corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: why, Message: message},
	})
}

var (
	done    = ended("main", 0, "Completed", "")
	initial = waits("main", "PodInitializing", "")
	unknown = ended("main", 137, "ContainerStatusUnknown", "could not be located")
)

// cases are facts by the names of cases, with the kind of the progress that they show: of a run that is over
// "succeeded" or the reason of its failure, and else "waits", "hindered", "outlived" or "gives up".
type cases []struct {
	name, want string
	facts      *Facts
}

// run compares the progress of all cases with a golden file.
func (all cases) run(t *testing.T, file string) {
	t.Helper()
	type shown struct {
		Case            string
		WaitingFor      string   `json:",omitempty"`
		CheckAgainAfter string   `json:",omitempty"`
		Outliving       []string `json:",omitempty"`
		Failure         *Failure `json:",omitempty"`
		GiveUp          *Failure `json:",omitempty"`
	}
	documents := make([]any, 0, len(all))
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			p := c.facts.Progress()
			if found := kindOf(p); found != c.want {
				t.Errorf("expected %s, but found %s: %+v", c.want, found, p)
			}
			s := shown{c.name, p.WaitingFor, "", p.Outliving, p.Failure, p.GiveUp}
			if !p.CheckAgain.IsZero() {
				s.CheckAgainAfter = p.CheckAgain.Sub(began).String()
			}
			documents = append(documents, s)
		})
	}
	if len(documents) == len(all) { // not with a subtest alone
		plugintest.Golden(t, file, documents...)
	}
}

func kindOf(p Progress) string {
	switch {
	case p.Over && p.Failure != nil:
		return p.Failure.Reason
	case p.Over:
		return "succeeded"
	case p.Failure != nil:
		return "a failure before the end"
	case p.GiveUp != nil:
		return "gives up"
	case p.Hindered:
		return "hindered"
	case len(p.Outliving) > 0:
		return "outlived"
	default:
		return "waits"
	}
}
