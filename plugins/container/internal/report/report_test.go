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
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/redact"
)

// password is what the container was given.
const password = "correct-horse-battery-staple"

func hiding() *redact.Redactor {
	return redact.New(json.RawMessage(`{"password":"` + password + `"}`))
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	x, umlauts := strings.Repeat("x", 1500), strings.Repeat("ä", 751)+"x"
	for text, want := range map[string]string{
		"": "", x: x, "a" + x: "…" + x, umlauts: "…" + strings.Repeat("ä", 749) + "x",
		"first\n" + strings.Repeat("x\n", 9) + "last\n": strings.Repeat("x\n", 9) + "last",
	} {
		if diff := cmp.Diff(want, lastLines(text)); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
	}
}

func TestContainerStatus(t *testing.T) {
	t.Parallel()
	waiting := func(message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: message}}
	}
	ended := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Ended", Message: message, FinishedAt: metav1.NewTime(time.Unix(2, 0)),
		}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(1, 0))}}
	lines := strings.Repeat("line\n", 9)
	for _, c := range []struct {
		name            string
		state, want     corev1.ContainerState
		reason, message string
		code            *int32
	}{
		{"new", corev1.ContainerState{}, corev1.ContainerState{}, "", "", nil},
		{"waiting", waiting("no " + password), waiting("no ***"), "ErrImagePull", "no ***", nil},
		// Rule (container.md#jobs-and-errors): `podStatus` has the container states as in Landscaper.
		{"running", running, running, "Running", "", nil},
		{"succeeded", ended(0, ""), ended(0, ""), "Ended", "", new(int32(0))},
		{
			"failed", ended(3, "line\n"+lines+"no "+password+"\n"), ended(3, lines+"no ***"), "Ended", lines + "no ***",
			new(int32(3)),
		},
		// The kubelet keeps the last bytes, so a message may begin within a secret.
		// Rule (SECURITY.md#secrets): The last lines of a container hide its input.
		{
			"cut", ended(3, password[len("correct-"):]+" is wrong"), ended(3, "*** is wrong"), "Ended", "*** is wrong",
			new(int32(3)),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status := corev1.ContainerStatus{Name: "main", Image: "image:1", ImageID: "image@sha256:00", State: c.state}
			before := status.DeepCopy()
			want := v1alpha1.ContainerStatus{
				Image: "image:1", ImageID: "image@sha256:00", State: &c.want, Reason: c.reason, Message: c.message,
				ExitCode: c.code,
			}
			if diff := cmp.Diff(want, containerStatus(status, hiding())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
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
	noRetry := []landscaper.ErrorCode{landscaper.ErrorNoRetry}
	failure := func(message, lastWords string) *pod.Failure {
		return &pod.Failure{Reason: "Failed", Message: message, LastWords: lastWords, Codes: noRetry}
	}
	lines := strings.Repeat("line\n", 9)
	for _, c := range []struct {
		name, exports string
		failure, want *pod.Failure
	}{
		{"succeeded", "", nil, nil},
		{"with exports", `{"a": 1}`, nil, nil},
		{"with no exports", `["` + password + `"]`, nil, &pod.Failure{
			Reason: "ExportsInvalid", Codes: []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem},
			Message: "the file named by EXPORTS_PATH holds no object: expected one as JSON or YAML, with the names of " +
				"exports as fields",
		}},
		{"failed", "[]", failure("no "+password, ""), failure("no ***", "")},
		{
			"with last words", "", failure("exit code 1", "line\n"+lines+"password: "+password),
			failure("exit code 1; it has said last:\n"+lines+"password: ***", ""),
		},
		{"with nothing to say", "", failure("exit code 1", " \n"), failure("exit code 1", "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := Failure(c.failure, &pod.Result{Exports: []byte(c.exports)}, hiding())
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
