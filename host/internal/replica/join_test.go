package replica

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

func TestJoinNeeds(t *testing.T) {
	t.Parallel()
	config := controlPlane.Config
	for name, tc := range map[string]struct {
		reason  string
		options Options
		want    []string // parts of the error
	}{
		"config":    {"there is no cluster", Options{Namespace: "n", PodName: "p", LeaseDuration: time.Second}, []string{"cluster"}},
		"pod name":  {"nobody can say who it is", Options{Config: config, Namespace: "n", LeaseDuration: time.Second}, []string{"MY_POD_NAME"}},
		"namespace": {"nobody can say where it is", Options{Config: config, PodName: "p", LeaseDuration: time.Second}, []string{"MY_POD_NAMESPACE"}},
		"duration":  {"a Lease counts in seconds", Options{Config: config, Namespace: "n", PodName: "p", LeaseDuration: 999}, []string{"999ns"}},
		"pod": {"a host on a desk says it is a pod", Options{Config: config, Namespace: "default", PodName: "nobody", LeaseDuration: time.Second},
			[]string{`"nobody"`, `"default"`, "MY_POD_NAME", "MY_POD_NAMESPACE", "--host-kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Join(t.Context(), tc.options)
			if r != nil || err == nil {
				t.Fatalf("%s: no error", tc.reason)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q does not name %s", tc.reason, err, part)
				}
			}
		})
	}
}

func TestJoinEndsWithContext(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Join(ctx, Options{Config: controlPlane.Config, Namespace: string(n), PodName: "a", LeaseDuration: leaseDuration}); err == nil {
		t.Error("joined although nobody wants it any more")
	}
}

// TestJoinOfAFinishedPod: the others take such a pod for dead, whoever says to be in it.
func TestJoinOfAFinishedPod(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	pod := n.createPod(t, "a")
	pod.Status.Phase = corev1.PodFailed
	if err := admin.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	_, err := Join(t.Context(), Options{Config: controlPlane.Config, Namespace: string(n), PodName: "a", LeaseDuration: leaseDuration})
	if err == nil || !strings.Contains(err.Error(), "finished") || !strings.Contains(err.Error(), string(n)) {
		t.Errorf("expected an error that names the pod and says that it is finished, but found %v", err)
	}
}

// TestJoinGivesUp has a replica that never hears of the others.
func TestJoinGivesUp(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.createPod(t, "a")
	network := &network{}
	network.late.Store(true)
	config := rest.CopyConfig(controlPlane.Config)
	config.Wrap(network.wrap)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Join(ctx, Options{Config: config, Namespace: string(n), PodName: "a", LeaseDuration: leaseDuration})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("join: %v", err)
	}
	if *n.lease(t, "a").Spec.HolderIdentity != "" {
		t.Error("the Lease was not given back")
	}
}
