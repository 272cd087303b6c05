package pod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// TestWaiting: the golden file has the texts for users.
func TestWaiting(t *testing.T) {
	t.Parallel()
	pulls, uploads := waits("main", "ErrImagePull", "503"), running("wait")
	cases{
		{"new", "waits", facts(withoutNode(""))},
		// Rule (container.md#jobs-and-errors): The condition shows the reason of a waiting Pod.
		{"unschedulable", "waits", facts(withoutNode("0/3 nodes are available"))},
		{"init", "waits", facts(pending, running("init"))},
		{"main runs", "waits", facts(uploads, running("main"))},
		{"main has ended", "waits", facts(uploads, done)},
		{"another one goes on", "waits", facts(uploads, done, finished(0), running("proxy"), after(9))},
		{
			"another one never starts", "outlived",
			facts(uploads, done, finished(0), waits("proxy", "ImagePullBackOff", ""), after(10)),
		},
		// Rule (container.md#jobs-and-errors): The end of `main` ends a run, also if a container beside it goes on.
		{"another one goes on and on", "outlived", facts(uploads, done, finished(0), running("proxy"), after(10))},
		{
			"stopped because of another one", "waits",
			facts(deleted(10), uploads, done, finished(0), running("proxy"), after(20)),
		},
		{"main has failed", "waits", facts(uploads, ended("main", 1, "Error", ""))},
		// Rule (container.md#jobs-and-errors): A failing image pull ends the job only after some time.
		{"pull fails at first", "hindered", facts(pending, pulls, after(59))},
		{"pull fails, with little time", "hindered", facts(pending, within(10), pulls, after(7))},
		{"given up", "waits", facts(deleted(0), givenUp)},
		{"stopped for the time", "waits", facts(deleted(0), pulls, timedOut)},
		{"deleted", "waits", facts(deleted(300), running("main"), after(301))},
		{"stopped by its deadline", "waits", facts(failed, reason("DeadlineExceeded", ""), running("main"))},
	}.run(t, "waiting.yaml")
}

// TestLastKnown: the kubelet forgets the hindrance of a container when it stops its Pod.
func TestLastKnown(t *testing.T) {
	t.Parallel()
	failing := &corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}
	started := &corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(0)}}
	for _, c := range []struct {
		name string
		pod  *Facts
		last *corev1.ContainerState
		// known: the last known state counts.
		known bool
	}{
		{"runs", facts(waits("main", "", "")), failing, false},
		{"stops", facts(deleted(0), initial), failing, true},
		{"has stopped", facts(deleted(0), unknown), failing, true},
		{"stopped by the kubelet", facts(failed, reason("DeadlineExceeded", ""), unknown), failing, true},
		{"says why", facts(deleted(0), waits("main", "ImagePullBackOff", "")), failing, false},
		{"has run", facts(deleted(0), unknown), started, false},
		{"has failed", facts(deleted(0), ended("main", 1, "Error", "")), failing, false},
		{"nothing was known", facts(deleted(0), unknown), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := c.pod.Pod.DeepCopy()
			if c.known {
				want.Status.ContainerStatuses[0].State = *c.last
			}
			last := &v1alpha1.PodStatus{ContainerStatus: v1alpha1.ContainerStatus{State: c.last}}
			if diff := cmp.Diff(want, LastKnown(c.pod.Pod, last)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
