package pod

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

var began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

const patience = time.Minute

// change makes a Pod what a test wants it to be.
type change func(*corev1.Pod)

// podThat returns a Pod that a node has.
func podThat(changes ...change) *corev1.Pod {
	started := metav1.NewTime(began)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "runs", Name: "shop", CreationTimestamp: started},
		Spec:       corev1.PodSpec{NodeName: "node"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started},
	}
	for _, c := range changes {
		c(pod)
	}
	return pod
}

func phase(p corev1.PodPhase) change { return func(pod *corev1.Pod) { pod.Status.Phase = p } }

func reason(r, message string) change {
	return func(pod *corev1.Pod) { pod.Status.Reason, pod.Status.Message = r, message }
}

func deletedAt(at time.Time) change {
	return func(pod *corev1.Pod) {
		t, grace := metav1.NewTime(at), int64(300)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &t, &grace
	}
}

// finishedAt says when main has ended.
func finishedAt(at time.Time) change {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(at)
	}
}

func startedAt(at time.Time) change {
	return func(pod *corev1.Pod) { pod.Status.StartTime = new(metav1.NewTime(at)) }
}

func disruptedAt(at time.Time) change {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at),
		})
	}
}

// within says how long the Pod may run.
func within(d time.Duration) change {
	return func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(d / time.Second)) }
}

func withoutNode(message string) change {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
		if message != "" {
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message},
			}
		}
	}
}

func disrupted(why, message string) change {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: why, Message: message,
		})
	}
}

func state(container string, s corev1.ContainerState) change {
	return func(pod *corev1.Pod) {
		status := corev1.ContainerStatus{Name: container, Image: "image:1", State: s}
		if container == layout.MainContainer {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
			return
		}
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
	}
}

func running(container string) change {
	return state(container, corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)},
	})
}

func waits(container, why, message string) change {
	return state(container, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why, Message: message}})
}

func ended(container string, code int32, why, message string) change {
	return state(container, corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: why, Message: message},
	})
}

// beside has another ordinary container run.
func beside(name string) change {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason     string
		pod        *corev1.Pod
		report     *layout.Report
		after      time.Duration
		timedOut   bool
		givenUp    *Failure
		want       string
		checkAgain time.Duration
		hindered   bool
		outliving  []string
	}{
		"new": {
			reason: "nobody has looked at it", pod: podThat(withoutNode("")), want: "Pod runs/shop to get a node",
		},
		// Rule (container.md#jobs-and-errors): The condition shows the reason of a waiting Pod.
		"unschedulable": {
			reason: "the scheduler says why", pod: podThat(withoutNode("0/3 nodes are available")),
			want: "Pod runs/shop to get a node: 0/3 nodes are available",
		},
		"init": {
			reason: "main comes last", pod: podThat(phase(corev1.PodPending), running(layout.InitContainer)),
			want: "container main of Pod runs/shop to start",
		},
		"main runs": {
			reason: "a user wants to know for how long", pod: podThat(running(layout.WaitContainer),
				running(layout.MainContainer)),
			want: "container main of Pod runs/shop to end, running since 2026-05-04T03:02:01Z",
		},
		"main has ended": {
			reason: "its exports are not there yet", pod: podThat(running(layout.WaitContainer),
				ended(layout.MainContainer, 0, "Completed", "")),
			want: "exports and state of Pod runs/shop to be uploaded",
		},
		"another one goes on": {
			reason: "it may end as well", after: 9 * time.Second,
			pod: podThat(running(layout.WaitContainer), ended(layout.MainContainer, 0, "Completed", ""),
				finishedAt(began), beside("proxy")),
			want: "exports and state of Pod runs/shop to be uploaded; its container main has ended, " +
				"but these have not: proxy",
			checkAgain: 10 * time.Second,
		},
		"another one never starts": {
			reason: "it holds up as much", after: 10 * time.Second,
			pod: podThat(running(layout.WaitContainer), ended(layout.MainContainer, 0, "Completed", ""), finishedAt(began),
				func(p *corev1.Pod) {
					p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
						Name: "proxy", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
					})
				}),
			want: "exports and state of Pod runs/shop to be uploaded; its container main has ended, " +
				"but these have not: proxy",
			outliving: []string{"proxy"},
		},
		// Rule (container.md#jobs-and-errors): The end of `main` ends a run, also if a container beside it goes on.
		"another one goes on and on": {
			reason: "nothing is uploaded before it ends", after: 10 * time.Second,
			pod: podThat(running(layout.WaitContainer), ended(layout.MainContainer, 0, "Completed", ""),
				finishedAt(began), beside("proxy")),
			want: "exports and state of Pod runs/shop to be uploaded; its container main has ended, " +
				"but these have not: proxy",
			outliving: []string{"proxy"},
		},
		"stopped because of another one": {
			reason: "nobody else has deleted it", after: 20 * time.Second,
			pod: podThat(deletedAt(began.Add(10*time.Second)), ended(layout.MainContainer, 0, "Completed", ""),
				finishedAt(began),
				running(layout.WaitContainer), beside("proxy")),
			want: "exports and state of Pod runs/shop to be uploaded, while it stops", checkAgain: 40 * time.Second,
		},
		"main has failed": {
			reason: "its state is not there yet", pod: podThat(running(layout.WaitContainer),
				ended(layout.MainContainer, 1, "Error", "")),
			want: "exports and state of Pod runs/shop to be uploaded",
		},
		// Rule (container.md#jobs-and-errors): A failing image pull ends the job only after some time.
		"pull fails at first": {
			reason: "registries fail now and then", pod: podThat(phase(corev1.PodPending),
				waits(layout.MainContainer, "ErrImagePull", "503")), after: 59 * time.Second,
			want: "container main of Pod runs/shop to start: ErrImagePull: 503", checkAgain: patience, hindered: true,
		},
		"pull fails, with little time": {
			reason: "there must be time to say so", after: 7 * time.Second,
			pod:  podThat(phase(corev1.PodPending), within(10*time.Second), waits(layout.MainContainer, "ErrImagePull", "503")),
			want: "container main of Pod runs/shop to start: ErrImagePull: 503", checkAgain: 8 * time.Second, hindered: true,
		},
		"given up": {
			reason: "it is the deployer who has deleted it, and knows why", givenUp: &Failure{Message: "no image"},
			pod: podThat(deletedAt(began)), want: "Pod runs/shop to stop: no image", checkAgain: 30 * time.Second,
		},
		"stopped for the time": {
			reason: "the same", timedOut: true, pod: podThat(deletedAt(began),
				waits(layout.MainContainer, "ErrImagePull", "503")),
			want: "Pod runs/shop to stop, because the timeout of the deploy item is nearly over; it has waited for " +
				"container main of Pod runs/shop to start: ErrImagePull: 503", checkAgain: 30 * time.Second,
		},
		"deleted": {
			reason: "its containers end first", pod: podThat(deletedAt(began.Add(300*time.Second)),
				running(layout.MainContainer)), after: 301 * time.Second,
			want: "Pod runs/shop to stop after its deletion", checkAgain: 330 * time.Second,
		},
		"stopped by its deadline": {
			reason: "its containers may leave something behind", pod: podThat(phase(corev1.PodFailed),
				reason("DeadlineExceeded", ""), running(layout.MainContainer)),
			want: "Pod runs/shop to stop: DeadlineExceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := Progress{WaitingFor: c.want}
			if c.checkAgain > 0 {
				want.CheckAgain = began.Add(c.checkAgain)
			}
			want.Hindered, want.Outliving = c.hindered, c.outliving
			got := (&Facts{Pod: c.pod,
				Report: c.report, HinderedSince: began, Patience: patience, TimedOut: c.timedOut, GivenUp: c.givenUp,
				Now: began.Add(c.after),
			}).Progress()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

// TestLastKnown: the kubelet forgets why a container waits when it stops its Pod.
func TestLastKnown(t *testing.T) {
	t.Parallel()
	failing := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}
	started := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}
	unknown := ended(layout.MainContainer, 137, "ContainerStatusUnknown", "could not be located")
	for name, c := range map[string]struct {
		reason string
		pod    *corev1.Pod
		last   *corev1.ContainerState
		// known: what was known last counts.
		known bool
	}{
		"runs": {reason: "it has got its image", pod: podThat(waits(layout.MainContainer, "", "")), last: &failing},
		"stops": {
			reason: "the kubelet does not try any more", last: &failing, known: true,
			pod: podThat(deletedAt(began), waits(layout.MainContainer, "PodInitializing", "")),
		},
		"has stopped": {
			reason: "the kubelet does not find it", pod: podThat(deletedAt(began), unknown), last: &failing, known: true,
		},
		"stopped by the kubelet": {
			reason: "the same", last: &failing, known: true,
			pod: podThat(phase(corev1.PodFailed), reason("DeadlineExceeded", ""), unknown),
		},
		"says why": {
			reason: "the kubelet knows better", last: &failing,
			pod: podThat(deletedAt(began), waits(layout.MainContainer, "ImagePullBackOff", "")),
		},
		"has run": {
			reason: "that it does not run any more is news", pod: podThat(deletedAt(began), unknown), last: &started,
		},
		"has failed": {
			reason: "it has started meanwhile", last: &failing,
			pod: podThat(deletedAt(began), ended(layout.MainContainer, 1, "Error", "")),
		},
		"nothing was known": {reason: "nobody has looked", pod: podThat(deletedAt(began), unknown)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := c.pod.DeepCopy()
			if c.known {
				want.Status.ContainerStatuses[0].State = *c.last
			}
			last := &v1alpha1.PodStatus{ContainerStatus: v1alpha1.ContainerStatus{State: c.last}}
			if diff := cmp.Diff(want, LastKnown(c.pod, last)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}
