package pod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// TestOver: the golden file has the texts for users.
func TestOver(t *testing.T) {
	t.Parallel()
	memoryLimit := func(f *Facts) {
		f.Pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		}}}
	}
	late := reason("DeadlineExceeded", "")
	cases{
		// The report is there, so the end of the wait container does not matter.
		{"succeeded", "succeeded", facts(running("wait"), done, reported())},
		{"succeeded and deleted", "succeeded", facts(deleted(306), done, finished(0), reported(), timedOut)},
		{"deleted when it ended", ReasonDeleted, facts(deleted(305), done, finished(0), reported())},
		{"stopped for the time", ReasonDeadline, facts(withoutNode("0/3 nodes are available"), deleted(0), timedOut)},
		{"never started", ReasonDeadline, facts(failed, deleted(0), initial, timedOut)},
		// The message is the kubelet's.
		{"not found any more", ReasonDeadline, facts(failed, deleted(0), unknown, timedOut)},
		{"given up", "Given", facts(withoutNode(""), deleted(0), givenUp)},
		// Without a node containers seem to run for ever.
		{
			"node removed", ReasonDeleted,
			facts(failed, deleted(0), running("main"), disrupted(0, "DeletionByPodGC", "node not found"), after(31)),
		},
		// Rule (container.md#jobs-and-errors): Refused exports or state are `OutputRefused`.
		{"output refused", ReasonRefused, facts(done, reported("exports are too long", "state has a link"))},
		// Rule (container.md#jobs-and-errors): A nonzero exit code is `ContainerFailed`, with the last lines.
		{"failed", ReasonContainerFailed, facts(ended("main", 3, "Error", "line\n"), reported())},
		// Rule (container.md#jobs-and-errors): A command missing in the image is `ContainerCannotStart`.
		{"not started", ReasonCannotStart, facts(ended("main", 128, "StartError", "context canceled\n"), reported())},
		// Rule (container.md#jobs-and-errors): A kill for memory is `OutOfMemory`.
		{"out of memory", ReasonOutOfMemory, facts(ended("main", 137, "OOMKilled", ""), reported())},
		{"init not started", ReasonCannotStart, facts(failed, ended("init", 128, "StartError", "no shim task"), initial)},
		{"killed", ReasonContainerFailed, facts(ended("main", 137, "Error", ""), reported())},
		// Rule (container.md#contract-with-the-image): A run has succeeded if it ended before its Pod was asked to.
		{"deadline after the end", "succeeded", facts(failed, late, within(60), done, finished(50), reported())},
		// Rule (container.md#contract-with-the-image): A run without a certain end counts as failed, also with exit
		// code 0.
		{"deadline at the end", ReasonDeadline, facts(failed, late, within(60), done, finished(58), reported())},
		{
			"evicted after the end", "succeeded",
			facts(failed, reason("Evicted", "low on memory"), disrupted(20, "", ""), done, finished(0), reported()),
		},
		{"helper out of memory", ReasonResultLost, facts(done, ended("wait", 137, "OOMKilled", "packing"), ends)},
		// Rule (container.md#jobs-and-errors): A container counts as out of memory only if the kubelet says so.
		{"killed with a limit", ReasonContainerFailed, facts(ended("main", 137, "Error", ""), memoryLimit, reported())},
		// Rule (container.md#jobs-and-errors): An evicted Pod has the reason of Kubernetes.
		{"evicted", "Evicted", facts(failed, reason("Evicted", "low on memory"), done, finished(0), reported())},
		// Rule (container.md#jobs-and-errors): A failure of `init` is `InitFailed`.
		{"init failed", ReasonInitFailed, facts(failed, ended("init", 1, "Error", "the archive is damaged"), initial)},
		// Rule (container.md#jobs-and-errors): A Pod without the API server fails as `APIServerUnreachable`.
		{"API server unreachable", ReasonUnreachable, facts(failed, ended("init", 3, "Error", "i/o timeout"), initial)},
		{"init failed without a message", ReasonInitFailed, facts(failed, ended("init", 1, "", " \n"))},
		// Rule (container.md#jobs-and-errors): A missing upload of exports is `ResultLost`.
		{"result lost", ReasonResultLost, facts(done, ended("wait", 1, "Error", "the API server refuses"), ends)},
		// The first failure counts.
		{
			"failed without a report", ReasonContainerFailed,
			facts(failed, ended("wait", 1, "Error", "x"), ended("main", 4, "Error", "")),
		},
		{"failed for no reason", ReasonPodFailed, facts(failed)},
		// Rule (container.md#jobs-and-errors): A Pod at the end of its time is `DeadlineExceeded`.
		{"deadline", ReasonDeadline, facts(failed, late, ended("main", 143, "Error", "bye"))},
		// Rule (container.md#jobs-and-errors): A deleted Pod is `PodDeleted`.
		{"deleted", ReasonDeleted, facts(failed, deleted(0), ended("main", 143, "Error", "bye"), reported())},
	}.run(t, "over.yaml")
}

func ends(f *Facts) { f.Pod.Status.Phase = corev1.PodSucceeded }

// TestGivesUp: a Pod without hope for a start is stopped, and over when it has stopped.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	all := cases{
		{"helper crashes", "gives up", facts(pending, waits("wait", "CrashLoopBackOff", "back-off 10s"), after(60))},
		// Rule (container.md#for-operators): `imagePullPatience` says how long the pull of an image may fail.
		{"pull fails", "gives up", facts(pending, waits("main", "ImagePullBackOff", "not found"), after(60))},
		// The kubelet stops it soon, and tells nothing then.
		{
			"pull fails, with little time", "gives up",
			facts(pending, within(20), waits("main", "ErrImagePull", "not found"), after(16)),
		},
		{
			"pull fails, with more time", "gives up",
			facts(pending, within(60), waits("main", "ErrImagePull", "not found"), after(50)),
		},
		{"no image", "gives up", facts(pending, waits("main", "InvalidImageName", "bad"))},
		{"cannot be created", "gives up", facts(pending, waits("main", "CreateContainerConfigError", "no key"), after(60))},
	}
	all.run(t, "gives-up.yaml")
	for _, c := range all {
		deleted(300)(c.facts)
		if p := c.facts.Progress(); kindOf(p) != "waits" {
			t.Errorf("%s: expected a wait for its end, but found %+v", c.name, p)
		}
	}
}

func TestStateLost(t *testing.T) {
	t.Parallel()
	const early = "it was ended before it could"
	refused := func(f *Facts) {
		f.Report = &layout.Report{StateFailed: true, Errors: []string{"the state is too large"}}
	}
	mainFailed, stopped := ended("main", 1, "Error", ""), ended("main", 143, "Error", "")
	noState := ended("wait", 137, "Error", `msg="cannot upload yet" note="`+layout.NoState+`" reason=EOF`)
	restored := &v1alpha1.Run{Restored: &v1alpha1.State{}}
	late := reason("DeadlineExceeded", "")
	for _, c := range []struct {
		name, want string
		facts      *Facts
		run        *v1alpha1.Run
	}{
		{"out of time", early, facts(late, stopped), nil},
		{"out of time, and not started", "", facts(late, unknown), nil},
		{"reported", "", facts(done, reported("exports are too long")), nil},
		{"refused", "the state is too large", facts(mainFailed, refused), nil},
		{"refused, and the Pod is gone", "the state is too large", facts(refused, noPod), nil},
		{"out of memory", "exit code 137 (OOMKilled)", facts(done, ended("wait", 137, "OOMKilled", "")), nil},
		{
			"failed", "has not uploaded exports and state: forbidden",
			facts(mainFailed, ended("wait", 1, "Error", "forbidden")), nil,
		},
		{"ended before the Pod was deleted", early, facts(deleted(306), done, finished(0)), nil},
		{"deleted before its end", "", facts(deleted(302), stopped, finished(0)), nil},
		// The deployer stops a Pod at the end of its time by a deletion, as others do.
		// Rule (container.md#lost-state): A run stopped at its timeout loses its state if that was not uploaded.
		{"stopped for the time", early, facts(deleted(302), stopped, finished(10)), &v1alpha1.Run{TimedOut: true}},
		{"evicted", "", facts(reason("Evicted", "low on memory"), ended("main", 137, "Error", "")), nil},
		{"not started", "", facts(ended("main", 128, "StartError", "")), nil},
		{"init failed", "", facts(failed, ended("init", 1, "Error", "")), nil},
		{"removed", "", facts(noPod), nil},
		{"node was lost", "", facts(deleted(0), running("main")), nil},
		// Rule (container.md#lost-state): An image without a state loses none.
		{"no state", "", facts(done, noState), nil},
		{"removed what it began with", "exit code 137 (Error): msg=", facts(done, noState), restored},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.run == nil {
				c.run = &v1alpha1.Run{}
			}
			got := StateLost(c.facts.Pod, c.facts.Report, c.run)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("expected %q, but found %q", c.want, got)
			}
		})
	}
}

func noPod(f *Facts) { f.Pod = nil }
