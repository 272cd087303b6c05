package pod

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestOver(t *testing.T) {
	t.Parallel()
	noRetry, mistake := landscaper.ErrorNoRetry, landscaper.ErrorConfigurationProblem
	reported := &layout.Report{}
	for name, c := range map[string]struct {
		reason string
		pod    *corev1.Pod
		report *layout.Report
		after  time.Duration
		// timedOut: the deployer has stopped it because of the time, and givenUp because it will not start.
		timedOut bool
		givenUp  *Failure
		// want is the reason of the failure, empty for none, and says what its message has.
		want  string
		says  []string
		said  string
		codes []landscaper.ErrorCode
	}{
		"succeeded": {
			reason: "nobody waits for the end of the wait container once its report is there",
			pod:    podThat(running(layout.WaitContainer), ended(layout.MainContainer, 0, "Completed", "")), report: reported,
		},
		"succeeded and deleted": {
			reason: "all is there that was to be done", report: reported, timedOut: true,
			pod: podThat(deletedAt(began.Add(306*time.Second)), ended(layout.MainContainer, 0, "Completed", ""),
				finishedAt(began)),
		},
		"deleted when it ended": {
			reason: "nobody knows what came first", report: reported,
			pod: podThat(deletedAt(began.Add(305*time.Second)), ended(layout.MainContainer, 0, "Completed", ""),
				finishedAt(began)),
			want: ReasonDeleted, codes: []landscaper.ErrorCode{noRetry},
		},
		"stopped for the time": {
			reason: "a user sees why it has not even started", pod: podThat(withoutNode("0/3 nodes are available"),
				deletedAt(began)), timedOut: true,
			want: ReasonDeadline, says: []string{
				"main has not started within", "to get a node: 0/3 nodes are available",
			}, codes: []landscaper.ErrorCode{landscaper.ErrorTimeout, noRetry},
		},
		"never started": {
			reason: "a user sees which image it was", timedOut: true,
			pod:  podThat(phase(corev1.PodFailed), deletedAt(began), waits(layout.MainContainer, "PodInitializing", "")),
			want: ReasonDeadline, says: []string{`container main with the image "image:1" has not started`},
			codes: []landscaper.ErrorCode{landscaper.ErrorTimeout, noRetry},
		},
		"not found any more": {
			reason: "that is what the kubelet says, and not the container", timedOut: true,
			pod: podThat(phase(corev1.PodFailed), deletedAt(began),
				ended(layout.MainContainer, 137, "ContainerStatusUnknown", "could not be located")),
			want: ReasonDeadline, codes: []landscaper.ErrorCode{landscaper.ErrorTimeout, noRetry},
		},
		"given up": {
			reason: "it is known why it was stopped", pod: podThat(withoutNode(""), deletedAt(began)),
			givenUp: &Failure{Reason: "Given", Message: "up", Codes: []landscaper.ErrorCode{mistake}},
			want:    "Given", says: []string{"up"}, codes: []landscaper.ErrorCode{mistake},
		},
		"node removed": {
			reason: "its containers seem to run for ever", after: 31 * time.Second,
			pod: podThat(phase(corev1.PodFailed), deletedAt(began), running(layout.MainContainer),
				disrupted("DeletionByPodGC", "node not found")),
			want: ReasonDeleted, says: []string{"DeletionByPodGC: node not found"}, codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): Refused exports or state are `OutputRefused`.
		"output refused": {
			reason: "an export would be missing", pod: podThat(ended(layout.MainContainer, 0, "Completed", "")),
			report: &layout.Report{Errors: []string{"exports are too long", "state has a link"}},
			want:   ReasonRefused, says: []string{
				"exports are too long; state has a link",
			}, codes: []landscaper.ErrorCode{mistake},
		},
		// Rule (container.md#jobs-and-errors): A nonzero exit code is `ContainerFailed`, with the last lines.
		"failed": {
			reason: "a user sees code and last words", pod: podThat(ended(layout.MainContainer, 3, "Error", "line\n")),
			report: reported,
			want:   ReasonContainerFailed, says: []string{
				"Pod runs/shop", "exit code 3 (Error)",
			}, said: "line", codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): A command missing in the image is `ContainerCannotStart`.
		"not started": {
			reason: "its exit code would be nobody's, and its last words those of the node",
			pod: podThat(ended(layout.MainContainer, 128, "StartError", "failed to start containerd task: context "+
				"canceled\n")), report: reported,
			want: ReasonCannotStart, says: []string{
				"container main of Pod runs/shop could not be started: failed to start containerd task: context canceled",
			},
			codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): A kill for memory is `OutOfMemory`.
		"out of memory": {
			reason: "Kubernetes says so", pod: podThat(ended(layout.MainContainer, 137, "OOMKilled", "")), report: reported,
			want: ReasonOutOfMemory, says: []string{
				"OOMKilled", "resources.limits.memory",
			}, codes: []landscaper.ErrorCode{noRetry},
		},
		"init not started": {
			reason: "main has never run, and the node says why",
			pod: podThat(phase(corev1.PodFailed),
				ended(layout.InitContainer, 128, "StartError", "failed to create shim task: context canceled"),
				waits(layout.MainContainer, "PodInitializing", "")),
			want: ReasonCannotStart, says: []string{
				"container init of Pod runs/shop could not be started: failed to create shim task",
			},
			codes: []landscaper.ErrorCode{noRetry},
		},
		"killed": {
			reason: "who knows by whom", pod: podThat(ended(layout.MainContainer, 137, "Error", "")), report: reported,
			want: ReasonContainerFailed, says: []string{"exit code 137 (Error)"}, codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#contract-with-the-image): A run has succeeded if it ended before its Pod was asked to.
		"deadline after the end": {
			reason: "the kubelet has stopped what was done long before",
			pod: podThat(phase(corev1.PodFailed), reason("DeadlineExceeded", ""), within(60*time.Second), startedAt(began),
				ended(layout.MainContainer, 0, "Completed", ""), finishedAt(began.Add(50*time.Second))), report: reported,
		},
		// Rule (container.md#contract-with-the-image): A run without a certain end counts as failed, also with exit
		// code 0.
		"deadline at the end": {
			reason: "it may have been asked to end",
			pod: podThat(phase(corev1.PodFailed), reason("DeadlineExceeded", ""), within(60*time.Second), startedAt(began),
				ended(layout.MainContainer, 0, "Completed", ""), finishedAt(began.Add(58*time.Second))), report: reported,
			want: ReasonDeadline, says: []string{"timeout"}, codes: []landscaper.ErrorCode{landscaper.ErrorTimeout, noRetry},
		},
		"evicted after the end": {
			reason: "Kubernetes says when it has begun to end the Pod", report: reported,
			pod: podThat(phase(corev1.PodFailed), reason("Evicted", "low on memory"), disruptedAt(began.Add(20*time.Second)),
				ended(layout.MainContainer, 0, "Completed", ""), finishedAt(began)),
		},
		"helper out of memory": {
			reason: "its last lines are about something else",
			pod: podThat(phase(corev1.PodSucceeded), ended(layout.MainContainer, 0, "Completed", ""), finishedAt(began),
				ended(layout.WaitContainer, 137, "OOMKilled", "packing state")),
			want: ReasonResultLost, says: []string{
				"exit code 137 (OOMKilled): packing state",
			}, codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): A container counts as out of memory only if the kubelet says so.
		"killed with a limit": {
			reason: "the kubelet does not always say so",
			pod: podThat(ended(layout.MainContainer, 137, "Error", ""), func(p *corev1.Pod) {
				p.Spec.Containers = []corev1.Container{{Name: layout.MainContainer, Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
				}}}
			}), report: reported,
			want: ReasonContainerFailed, says: []string{"exit code 137", "perhaps", "resources.limits.memory"},
			codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): An evicted Pod has the reason of Kubernetes.
		"evicted": {
			reason: "who is asked to end may end well with nothing done, and Kubernetes says why", report: reported,
			pod: podThat(phase(corev1.PodFailed), reason("Evicted", "low on memory"),
				ended(layout.MainContainer, 0, "Completed", ""), finishedAt(began)),
			want: "Evicted", says: []string{"low on memory"}, codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): A failure of `init` is `InitFailed`.
		"init failed": {
			reason: "main has never run", pod: podThat(phase(corev1.PodFailed),
				ended(layout.InitContainer, 1, "Error", "the archive is damaged"),
				waits(layout.MainContainer, "PodInitializing", "")),
			want: ReasonInitFailed, says: []string{
				"container init", "the archive is damaged",
			}, codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): A Pod without the API server fails as `APIServerUnreachable`.
		"API server unreachable": {
			reason: "main would have worked for nothing",
			pod: podThat(phase(corev1.PodFailed), ended(layout.InitContainer, 3, "Error", "dial tcp 10.0.0.1:443: i/o timeout"),
				waits(layout.MainContainer, "PodInitializing", "")),
			want: ReasonUnreachable, says: []string{
				"main was not started", "Pod runs/shop cannot reach the API server", "network policies", "i/o timeout",
			},
			codes: []landscaper.ErrorCode{noRetry},
		},
		"init failed without a message": {
			reason: "the exit code is all that is known",
			pod:    podThat(phase(corev1.PodFailed), ended(layout.InitContainer, 1, "", " \n")),
			want:   ReasonInitFailed, says: []string{"container init of Pod runs/shop has failed: exit code 1 (no reason)"},
			codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): A missing upload of exports is `ResultLost`.
		"result lost": {
			reason: "succeeding without exports would be a lie",
			pod: podThat(phase(corev1.PodSucceeded), ended(layout.WaitContainer, 1, "Error", "the API server refuses"),
				ended(layout.MainContainer, 0, "Completed", "")),
			want: ReasonResultLost, says: []string{"the API server refuses"}, codes: []landscaper.ErrorCode{noRetry},
		},
		"failed without a report": {
			reason: "what has failed first counts", pod: podThat(phase(corev1.PodFailed),
				ended(layout.WaitContainer, 1, "Error", "x"), ended(layout.MainContainer, 4, "Error", "")),
			want: ReasonContainerFailed, says: []string{"exit code 4"}, codes: []landscaper.ErrorCode{noRetry},
		},
		"failed for no reason": {
			reason: "there is always something to say", pod: podThat(phase(corev1.PodFailed)),
			want: ReasonPodFailed, says: []string{"does not say why"}, codes: []landscaper.ErrorCode{noRetry},
		},
		// Rule (container.md#jobs-and-errors): A Pod at the end of its time is `DeadlineExceeded`.
		"deadline": {
			reason: "it is the job that has taken too long", pod: podThat(phase(corev1.PodFailed),
				reason("DeadlineExceeded", ""), ended(layout.MainContainer, 143, "Error", "bye")),
			want: ReasonDeadline, says: []string{"has run for as long as"}, said: "bye", codes: []landscaper.ErrorCode{
				landscaper.ErrorTimeout, noRetry,
			},
		},
		// Rule (container.md#jobs-and-errors): A deleted Pod is `PodDeleted`.
		"deleted": {
			reason: "nobody runs an image twice by himself", pod: podThat(phase(corev1.PodFailed), deletedAt(began),
				ended(layout.MainContainer, 143, "Error", "bye")), report: reported,
			want: ReasonDeleted, says: []string{"start a new job"}, said: "bye", codes: []landscaper.ErrorCode{noRetry},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := (&Facts{Pod: c.pod,
				Report: c.report, HinderedSince: began, Patience: patience, TimedOut: c.timedOut, GivenUp: c.givenUp,
				Now: began.Add(c.after),
			}).Progress()
			if !v.Over || v.WaitingFor != "" || !v.CheckAgain.IsZero() {
				t.Fatalf("%s: expected it to be over, but found %+v", c.reason, v)
			}
			if c.want == "" {
				if v.Failure != nil {
					t.Fatalf("%s: expected no failure, but found %+v", c.reason, v.Failure)
				}
				return
			}
			if v.Failure == nil || v.Failure.Reason != c.want || v.Failure.LastWords != c.said {
				t.Fatalf("%s: expected %s that says %q, but found %+v", c.reason, c.want, c.said, v.Failure)
			}
			if diff := cmp.Diff(c.codes, v.Failure.Codes); diff != "" {
				t.Errorf("%s: codes: -want +got:\n%s", c.reason, diff)
			}
			for _, text := range c.says {
				if !strings.Contains(v.Failure.Message, text) {
					t.Errorf("%s: expected %q in %q", c.reason, text, v.Failure.Message)
				}
			}
		})
	}
}

// TestGivesUp: a Pod whose containers will not start is stopped, and over when it has stopped.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		pod    *corev1.Pod
		after  time.Duration
		want   string
		says   []string
	}{
		"helper crashes": {
			reason: "main never starts", pod: podThat(phase(corev1.PodPending),
				waits(layout.WaitContainer, "CrashLoopBackOff", "back-off 10s")), after: patience,
			want: ReasonCannotStart, says: []string{"container wait", "CrashLoopBackOff"},
		},
		// Rule (container.md#for-operators): `imagePullPatience` says how long the pull of an image may fail.
		"pull fails": {
			reason: "patience has an end", pod: podThat(phase(corev1.PodPending),
				waits(layout.MainContainer, "ImagePullBackOff", "not found")), after: patience,
			want: ReasonImage, says: []string{"container main", `image "image:1"`, "ImagePullBackOff: not found"},
		},
		"pull fails, with little time": {
			reason: "the kubelet stops it soon, and tells nothing then", after: 16 * time.Second,
			pod: podThat(phase(corev1.PodPending), within(20*time.Second),
				waits(layout.MainContainer, "ErrImagePull", "not found")),
			want: ReasonImage, says: []string{`image "image:1"`, "ErrImagePull: not found"},
		},
		"pull fails, with more time": {
			reason: "a Pod keeps little of much time", after: 50 * time.Second,
			pod: podThat(phase(corev1.PodPending), within(time.Minute),
				waits(layout.MainContainer, "ErrImagePull", "not found")),
			want: ReasonImage,
		},
		"no image": {
			reason: "patience is of no use", pod: podThat(phase(corev1.PodPending),
				waits(layout.MainContainer, "InvalidImageName", "bad")),
			want: ReasonImage, says: []string{"InvalidImageName: bad"},
		},
		"cannot be created": {
			reason: "such as by its configuration", pod: podThat(phase(corev1.PodPending),
				waits(layout.MainContainer, "CreateContainerConfigError", "no key")), after: patience,
			want: ReasonCannotStart, says: []string{"cannot be started", "no key"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := (&Facts{Pod: c.pod, HinderedSince: began, Patience: patience, Now: began.Add(c.after)}).Progress()
			if v.Over || v.Failure != nil || v.GiveUp == nil || v.GiveUp.Reason != c.want {
				t.Fatalf("%s: expected it to be given up for %s, but found %+v", c.reason, c.want, v)
			}
			if diff := cmp.Diff([]landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}, v.GiveUp.Codes); diff != "" {
				t.Errorf("%s: codes: -want +got:\n%s", c.reason, diff)
			}
			for _, text := range c.says {
				if !strings.Contains(v.GiveUp.Message, text) {
					t.Errorf("%s: expected %q in %q", c.reason, text, v.GiveUp.Message)
				}
			}
			deletedAt(began.Add(300 * time.Second))(c.pod)
			if v := (&Facts{
				Pod: c.pod, HinderedSince: began, Patience: patience, Now: began.Add(c.after),
			}).Progress(); v.Over || v.GiveUp != nil {
				t.Errorf("%s: expected that it is waited for, but found %+v", c.reason, v)
			}
		})
	}
}
