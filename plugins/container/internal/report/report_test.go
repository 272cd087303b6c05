package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// password is what the container was given.
const password = "correct-horse-battery-staple"

func hiding() *redact.Redactor {
	return redact.New(json.RawMessage(`{"password":"` + password + `"}`))
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reason, text, want string }{
		"nothing": {reason: "there may be nothing"},
		"more": {
			reason: "the end says what was wrong", text: "first\n" + strings.Repeat("x\n", 9) + "last\n",
			want: strings.Repeat("x\n", 9) + "last",
		},
		"long": {
			reason: "a status is no place for logs", text: "a" + strings.Repeat("x", 1500),
			want: "…" + strings.Repeat("x", 1500),
		},
		"as long": {reason: "all is told", text: strings.Repeat("x", 1500), want: strings.Repeat("x", 1500)},
		"in a letter": {
			reason: "no part of a letter is left", text: strings.Repeat("ä", 751) + "x",
			want: "…" + strings.Repeat("ä", 749) + "x",
		},
	} {
		if diff := cmp.Diff(c.want, lastLines(c.text)); diff != "" {
			t.Errorf("%s: %s: -want +got:\n%s", name, c.reason, diff)
		}
	}
}

func TestContainerStatus(t *testing.T) {
	t.Parallel()
	started, finished, code, failed := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0)), int32(0), int32(3)
	for name, c := range map[string]struct {
		reason string
		state  corev1.ContainerState
		want   v1alpha1.ContainerStatus
	}{
		"new": {reason: "the kubelet says nothing yet", want: v1alpha1.ContainerStatus{State: &corev1.ContainerState{}}},
		"waiting": {
			reason: "what is secret may be in an environment that is told", state: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no " + password},
			},
			want: v1alpha1.ContainerStatus{
				Reason: "ErrImagePull", Message: "no ***",
				State: &corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no ***"}},
			},
		},
		// Rule (container.md#jobs-and-errors): `podStatus` has the container states as in Landscaper.
		"running": {
			reason: "Landscaper says so, too", state: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: started},
			},
			want: v1alpha1.ContainerStatus{
				Reason: "Running", State: &corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
			},
		},
		"succeeded": {
			reason: "zero is a code", state: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: finished},
			},
			want: v1alpha1.ContainerStatus{
				Reason: "Completed", ExitCode: &code, State: &corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: finished},
				},
			},
		},
		"failed": {
			reason: "the last words are told in both places without what is secret",
			state: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 3, Reason: "Error", Message: strings.Repeat("line\n", 20) + "no " + password + "\n",
				},
			},
			want: v1alpha1.ContainerStatus{
				Reason: "Error", Message: strings.Repeat("line\n", 9) + "no ***", ExitCode: &failed, State: &corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{
						ExitCode: 3, Reason: "Error", Message: strings.Repeat("line\n", 9) + "no ***",
					},
				},
			},
		},
		// Rule (SECURITY.md#secrets): The last lines of a container hide its input.
		"cut": {
			reason: "the kubelet keeps the last bytes, so that a message may begin within a secret",
			state: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 3, Reason: "Error", Message: password[len("correct-"):] + " is wrong",
			}},
			want: v1alpha1.ContainerStatus{
				Reason: "Error", Message: "*** is wrong", ExitCode: &failed, State: &corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "*** is wrong"},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := corev1.ContainerStatus{Name: "main", Image: "image:1", ImageID: "image@sha256:00", State: c.state}
			before := status.DeepCopy()
			c.want.Image, c.want.ImageID = "image:1", "image@sha256:00"
			if diff := cmp.Diff(c.want, containerStatus(status, hiding())); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(before, &status); diff != "" {
				t.Errorf("the Pod was changed: -before +after:\n%s", diff)
			}
		})
	}
}

func TestPodStatus(t *testing.T) {
	t.Parallel()
	created := metav1.NewTime(time.Unix(1, 0))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop", CreationTimestamp: created}}
	want := &v1alpha1.PodStatus{PodName: "shop", LastRun: &created}
	if diff := cmp.Diff(want, PodStatus(nil, p, hiding())); diff != "" {
		t.Errorf("a Pod that no node has: -want +got:\n%s", diff)
	}

	p.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: layout.InitContainer, Image: "a"}, {Name: layout.WaitContainer, Image: "b"}, {Name: "injected", Image: "c"},
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "sidecar", Image: "d"}, {Name: layout.MainContainer, Image: "e"},
	}
	of := func(image string) v1alpha1.ContainerStatus {
		return v1alpha1.ContainerStatus{Image: image, State: &corev1.ContainerState{}}
	}
	want.InitContainerStatus, want.WaitContainerStatus, want.ContainerStatus = of("a"), of("b"), of("e")
	want.LastSuccessfulJobID = "job-1"
	last := &v1alpha1.PodStatus{PodName: "older", LastSuccessfulJobID: "job-1", ContainerStatus: of("old")}
	if diff := cmp.Diff(want, PodStatus(last, p, hiding())); diff != "" {
		t.Errorf("a Pod with containers of others: -want +got:\n%s", diff)
	}
}

func TestReported(t *testing.T) {
	t.Parallel()
	codes := []landscaper.ErrorCode{landscaper.ErrorNoRetry}
	for name, c := range map[string]struct {
		reason  string
		failure *pod.Failure
		exports string
		want    *pod.Failure
	}{
		"succeeded":    {reason: "exports are not needed"},
		"with exports": {reason: "they can be read", exports: `{"a": 1}`},
		"with no exports": {reason: "somebody has to correct the image", exports: `["` + password + `"]`, want: &pod.Failure{
			Reason: "ExportsInvalid", Codes: []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem},
			Message: "the file named by EXPORTS_PATH holds no object: expected one as JSON or YAML, with the names of " +
				"exports as fields",
		}},
		"failed": {
			reason: "the exports of a Pod that has failed do not count", exports: "[]", failure: &pod.Failure{
				Reason: "PodFailed", Message: "no " + password, Codes: codes,
			},
			want: &pod.Failure{Reason: "PodFailed", Message: "no ***", Codes: codes},
		},
		"with last words": {
			reason: "the end of them is told, without what is secret",
			failure: &pod.Failure{
				Reason: "ContainerFailed", Message: "exit code 1", Codes: codes, LastWords: strings.Repeat("line\n",
					20) + "password: " + password,
			},
			want: &pod.Failure{
				Reason: "ContainerFailed", Codes: codes,
				Message: "exit code 1; it has said last:\n" + strings.Repeat("line\n", 9) + "password: ***",
			},
		},
		"with nothing to say": {
			reason: "no heading without a text", failure: &pod.Failure{
				Reason: "ContainerFailed", Message: "exit code 1", LastWords: " \n",
			},
			want: &pod.Failure{Reason: "ContainerFailed", Message: "exit code 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := Failure(c.failure, &pod.Result{Exports: []byte(c.exports)}, hiding())
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}
