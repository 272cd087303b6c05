package pod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

func TestStateLost(t *testing.T) {
	t.Parallel()
	done := ended(layout.MainContainer, 0, "Completed", "")
	for name, c := range map[string]struct {
		reason string
		pod    *corev1.Pod
		report *layout.Report
		want   string
	}{
		"out of time": {
			"it has worked for as long as it may", podThat(reason("DeadlineExceeded", ""),
				ended(layout.MainContainer, 143, "Error", "")), nil,
			"it was ended before it could",
		},
		"out of time, and not started": {
			"the kubelet has not found it", podThat(reason("DeadlineExceeded", ""),
				ended(layout.MainContainer, 137, "ContainerStatusUnknown", "")), nil, "",
		},
		"reported": {"there is another one", podThat(done), &layout.Report{Errors: []string{"exports are too long"}}, ""},
		"refused": {
			"main has changed what is kept", podThat(ended(layout.MainContainer, 1, "Error", "")),
			&layout.Report{StateFailed: true, Errors: []string{"the state is too large"}}, "the state is too large",
		},
		"refused, and the Pod is gone": {
			"the report says so", nil, &layout.Report{
				StateFailed: true, Errors: []string{"the state is too large"},
			}, "the state is too large",
		},
		"out of memory": {
			"nobody has uploaded it", podThat(done,
				ended(layout.WaitContainer, 137, "OOMKilled", "")), nil, "exit code 137 (OOMKilled)",
		},
		"failed": {
			"it may have done much before", podThat(ended(layout.MainContainer, 1, "Error", ""),
				ended(layout.WaitContainer, 1, "Error", "forbidden")),
			nil, "has not uploaded exports and state: forbidden",
		},
		"ended before the Pod was deleted": {
			"it had done its work", podThat(deletedAt(began.Add(306*time.Second)), done,
				finishedAt(began)), nil, "it was ended before it could",
		},
		"deleted before its end": {
			"it has not come to its end", podThat(deletedAt(began.Add(302*time.Second)),
				ended(layout.MainContainer, 143, "Error", ""), finishedAt(began)),
			nil, "",
		},
		"evicted": {
			"so has this one", podThat(reason("Evicted", "low on memory"), ended(layout.MainContainer, 137, "Error", "")), nil,
			"",
		},
		"not started": {"it has done nothing", podThat(ended(layout.MainContainer, 128, "StartError", "")), nil, ""},
		"init failed": {
			"neither has this", podThat(phase(corev1.PodFailed), ended(layout.InitContainer, 1, "Error", "")), nil, "",
		},
		"removed":       {"nobody knows", nil, nil, ""},
		"node was lost": {"nor here", podThat(deletedAt(began), running(layout.MainContainer)), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := StateLost(c.pod, c.report, &v1alpha1.Run{})
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, got)
			}
		})
	}
}

// TestStateLostInTime: the deployer stops a Pod whose time is up as others do who delete it.
// Rule (container.md#lost-state): A run stopped at its timeout loses its state if that was not uploaded.
func TestStateLostInTime(t *testing.T) {
	t.Parallel()
	p := podThat(deletedAt(began.Add(302*time.Second)), ended(layout.MainContainer, 143, "Error", ""),
		finishedAt(began.Add(10*time.Second)))
	if StateLost(p, nil, &v1alpha1.Run{TimedOut: true}) == "" || StateLost(p, nil, &v1alpha1.Run{}) != "" {
		t.Error("expected that it counts who has stopped the Pod")
	}
}

// TestNoStateToLose: an image that keeps no state loses none, unless it has removed what it began with.
// Rule (container.md#lost-state): An image without a state loses none.
func TestNoStateToLose(t *testing.T) {
	t.Parallel()
	p := podThat(ended(layout.MainContainer, 0, "Completed", ""),
		ended(layout.WaitContainer, 137, "Error", `msg="cannot upload yet" note="main has left no state" reason=EOF`))
	if why := StateLost(p, nil, &v1alpha1.Run{}); why != "" {
		t.Errorf("found %q", why)
	}
	if why := StateLost(p, nil, &v1alpha1.Run{
		Restored: &v1alpha1.State{},
	}); !strings.Contains(why, "exit code 137 (Error): msg=") {
		t.Errorf("found %q", why)
	}
}
