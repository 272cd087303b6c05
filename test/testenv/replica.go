package testenv

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// endPoll is how often Kill looks whether the plugins have ended.
const endPoll = 10 * time.Millisecond

// Replica is a host that takes itself for a pod. The Pod is an object and nothing else: no kubelet runs it, and its
// phase stays Pending.
type Replica struct {
	*Host
	// Pod that the replica takes itself for.
	Pod *corev1.Pod

	client client.Client
}

// NewPod returns a Pod that is there, and that nobody runs, even where there is a node.
func NewPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers:      []corev1.Container{{Name: "pergola", Image: "none"}},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "test.pergola.dev/never"}},
		},
	}
}

// StartReplica is StartReplicaWith as a user of its own who has the pod's name, so that the audit log tells replicas
// apart, and may do what HostRights allow; o.Kubeconfig is not used.
func StartReplica(ctx context.Context, c *ControlPlane, o HostOptions) (*Replica, error) {
	cl, err := c.Client()
	if err != nil {
		return nil, err
	}
	if err := c.AllowReplicas(ctx, o.PodNamespace); err != nil {
		return nil, err
	}
	if o.Kubeconfig, err = c.kubeconfigOf(o.PodName); err != nil {
		return nil, err
	}
	return StartReplicaWith(ctx, cl, o)
}

// StartReplicaWith creates the Pod that o names, which must not be there, with an administrator's client, and starts
// a host in its name. It returns as soon as the host listens for health checks, before it is ready. The host must be
// stopped; the Pod is not deleted with it.
func StartReplicaWith(ctx context.Context, admin client.Client, o HostOptions) (_ *Replica, err error) {
	r := &Replica{Pod: NewPod(o.PodNamespace, o.PodName), client: admin}
	if err := admin.Create(ctx, r.Pod); err != nil {
		return nil, fmt.Errorf("create pod of replica %s: %w", o.PodName, err)
	}
	if r.Host, err = StartHost(ctx, o); err != nil {
		return nil, fmt.Errorf("start replica %s: %w", o.PodName, err)
	}
	return r, nil
}

// Kill ends the host as kill -9 does and returns when its plugins have ended, too: no process of a pod outlives it.
// The Pod stays, as it does when its node is lost.
func (r *Replica) Kill(ctx context.Context) error {
	// A host that is paused starts no further plugin.
	if err := r.Pause(); err != nil {
		return err
	}
	plugins, err := r.Children()
	if err := errors.Join(err, r.Host.Kill()); err != nil {
		return err
	}
	ticker := time.NewTicker(endPoll)
	defer ticker.Stop()
	for name, pids := range plugins {
		for _, pid := range pids {
			for Running(pid) {
				select {
				case <-ticker.C:
				case <-ctx.Done():
					return fmt.Errorf("wait for the end of plugin %s, process %d: %w", name, pid, ctx.Err())
				}
			}
		}
	}
	return nil
}

// DeletePod deletes the Pod at once.
func (r *Replica) DeletePod(ctx context.Context) error {
	if err := r.client.Delete(ctx, r.Pod, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("delete pod of replica %s: %w", r.Pod.Name, err)
	}
	return nil
}

// Pause stops the host's process, but not its plugins, until Resume. A host that has ended stays as it is.
func (r *Replica) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume lets the host's process go on after Pause.
func (r *Replica) Resume() error { return r.signal(syscall.SIGCONT) }
