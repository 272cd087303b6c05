package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/container/internal/run"
)

// discardGrace is how long containers have that have nothing more to do, in seconds. The wait container may try to upload something with
// rights that it has no more.
const discardGrace = 2

// CreatePod creates a Pod, or returns the one of that name which is there.
func (c *Cluster) CreatePod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	created, err := c.Client.Core().Pods(c.Namespace).Create(ctx, pod, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		created, err = c.Client.Core().Pods(c.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("create Pod %s/%s: %w", c.Namespace, pod.Name, err)
	}
	return created, nil
}

// Pod returns a Pod; nil if there is none of that name.
func (c *Cluster) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := c.Client.Core().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // none is no error
	}
	if err != nil {
		return nil, fmt.Errorf("read Pod %s/%s: %w", c.Namespace, name, err)
	}
	return pod, nil
}

// Pods returns those that a selector selects.
func (c *Cluster) Pods(ctx context.Context, selector run.Selector) ([]corev1.Pod, error) {
	list, err := c.Client.Core().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: string(selector)})
	if err != nil {
		return nil, fmt.Errorf("list Pods in namespace %s: %w", c.Namespace, err)
	}
	return list.Items, nil
}

// Stop deletes a Pod, whose containers are asked to end, and have the time for it that the Pod says. One that is gone, or another one of that
// name, is left alone.
func (c *Cluster) Stop(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	return c.delete(ctx, pod, nil)
}

// StopWithin is Stop with another time for the containers to end; at least a second.
func (c *Cluster) StopWithin(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	seconds := max(int64(grace/time.Second), 1)
	return c.delete(ctx, pod, &seconds)
}

// Discard deletes a Pod that has nothing more to do, and lets it go.
func (c *Cluster) Discard(ctx context.Context, pod *corev1.Pod) error {
	seconds := int64(discardGrace)
	return errors.Join(c.delete(ctx, pod, &seconds), c.Release(ctx, pod))
}

func (c *Cluster) delete(ctx context.Context, pod *corev1.Pod, grace *int64) error {
	err := c.Client.Core().Pods(c.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Pod %s/%s: %w", c.Namespace, pod.Name, err)
	}
	return nil
}

// Release lets a Pod go: it takes the finalizer off, so that nothing keeps a Pod that is deleted.
func (c *Cluster) Release(ctx context.Context, pod *corev1.Pod) error {
	return c.patchPod(ctx, pod, nil)
}

// Keep lets a Pod go and labels it, so that it stays for a look at it.
func (c *Cluster) Keep(ctx context.Context, pod *corev1.Pod) error {
	return c.patchPod(ctx, pod, map[string]string{run.PartLabel: run.PartKept})
}

func (c *Cluster) patchPod(ctx context.Context, pod *corev1.Pod, newLabels map[string]string) error {
	rest := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == run.Finalizer })
	if len(rest) == len(pod.Finalizers) && len(newLabels) == 0 {
		return nil
	}
	metadata := map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "finalizers": rest}
	if len(newLabels) > 0 {
		metadata["labels"] = newLabels
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("write a patch for Pod %s/%s: %w", c.Namespace, pod.Name, err)
	}
	_, err = c.Client.Core().Pods(c.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsConflict(err) {
		// Its status has changed meanwhile, as a rule.
		fresh, getErr := c.Client.Core().Pods(c.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if getErr == nil && fresh.UID == pod.UID && fresh.ResourceVersion != pod.ResourceVersion {
			return c.patchPod(ctx, fresh, newLabels)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take the finalizer off Pod %s/%s: %w", c.Namespace, pod.Name, err)
	}
	return nil
}

// DiscardPods discards the Pods that a selector selects.
func (c *Cluster) DiscardPods(ctx context.Context, selector run.Selector) error {
	pods, err := c.Pods(ctx, selector)
	if err != nil {
		return err
	}
	errs := make([]error, 0, len(pods))
	for i := range pods {
		errs = append(errs, c.Discard(ctx, &pods[i]))
	}
	return errors.Join(errs...)
}
