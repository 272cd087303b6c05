package objects

import (
	"fmt"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// Wait waits until objects are ready.
func (k *Client) Wait(resources kube.ResourceList, timeout time.Duration) error {
	return k.journal.Failed(k.wait("WaitForObjects", "ready", k.own(resources), timeout, k.inner.Wait))
}

// WaitWithJobs waits until objects are ready and Jobs are complete.
func (k *Client) WaitWithJobs(resources kube.ResourceList, timeout time.Duration) error {
	return k.journal.Failed(k.wait("WaitForObjects", "ready", k.own(resources), timeout, k.inner.WaitWithJobs))
}

// WaitForDelete waits until objects are gone.
func (k *Client) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	h := k.hookOf(resources)
	if k.history.Attempt.IsDone(h) { // it was not deleted, see Delete
		return nil
	}
	step := "WaitForDeletion"
	if len(resources) == 0 || h != nil {
		step = ""
	}
	return k.hookFailed(h, helm.ClusterFailed,
		k.wait(step, "gone", k.deletable(k.own(resources)), timeout, k.inner.WaitForDelete))
}

// wait waits until objects are in a state; a named step is reported.
func (k *Client) wait(
	step, state string, resources kube.ResourceList, timeout time.Duration,
	wait func(kube.ResourceList, time.Duration) error,
) error {

	if step != "" {
		k.journal.Progress(step, "Waiting until these are %s: %s", state, enumerate(resources))
	}
	timeout = k.within(timeout)
	if err := k.untilOver(func() error { return wait(resources, timeout) }); err != nil {
		return fmt.Errorf("not %s within %s: %s: %w", state, timeout, enumerate(resources), err)
	}
	return nil
}

// untilOver leaves a wait of Helm at the end of the operation.
func (k *Client) untilOver(wait func() error) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
}

// WaitAndGetCompletedPodPhase is for tests of charts; they do not run here.
func (k *Client) WaitAndGetCompletedPodPhase(name string, timeout time.Duration) (corev1.PodPhase, error) {
	return k.inner.WaitAndGetCompletedPodPhase(name, timeout)
}

// within bounds a wait; see helm.Options. A wait of one look, too, has an error with the missing objects.
func (k *Client) within(timeout time.Duration) time.Duration {
	if until := k.req.Options.Until; !until.IsZero() && !k.undoes() {
		timeout = min(timeout, max(time.Until(until), time.Second))
	}
	return timeout.Round(time.Millisecond)
}
