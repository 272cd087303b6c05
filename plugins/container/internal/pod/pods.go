package pod

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
)

// discardGrace is the grace period of containers with nothing more to do. The wait container may try to upload
// something without its former rights.
const discardGrace = 2 * time.Second

// CreatePod creates a Pod, or returns the existing one of the same name.
func (c *Cluster) CreatePod(ctx context.Context, p *corev1.Pod) (*corev1.Pod, error) {
	created, err := c.Client.Core().Pods(c.Namespace).Create(ctx, p, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		created, err = c.Client.Core().Pods(c.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("create Pod %s/%s: %w", c.Namespace, p.Name, err)
	}
	return created, nil
}

// Pod returns a Pod; nil for none.
func (c *Cluster) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	p, err := c.Client.Core().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if isGone(err) {
		return nil, nil //nolint:nilnil // none is no error
	}
	if err != nil {
		return nil, fmt.Errorf("read Pod %s/%s: %w", c.Namespace, name, err)
	}
	return p, nil
}

func (c *Cluster) pods(ctx context.Context, selector Selector) ([]corev1.Pod, error) {
	list, err := c.Client.Core().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: string(selector)})
	if err != nil {
		return nil, fmt.Errorf("list Pods in namespace %s: %w", c.Namespace, err)
	}
	return list.Items, nil
}

// Stop deletes a Pod. Its containers have the grace period to end, at least a second. With 0 they have the Pod's own
// grace period, and a Pod under deletion is left alone. A missing Pod, or another one of the same name, is no error.
func (c *Cluster) Stop(ctx context.Context, p *corev1.Pod, grace time.Duration) error {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
	if grace > 0 {
		options.GracePeriodSeconds = new(max(int64(grace/time.Second), 1))
	} else if p.DeletionTimestamp != nil {
		return nil
	}
	err := c.Client.Core().Pods(c.Namespace).Delete(ctx, p.Name, options)
	if err != nil && !isGone(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Pod %s/%s: %w", c.Namespace, p.Name, err)
	}
	return nil
}

// Discard deletes a Pod with nothing more to do, and releases it.
func (c *Cluster) Discard(ctx context.Context, p *corev1.Pod) error {
	return errors.Join(c.Stop(ctx, p, discardGrace), c.Release(ctx, p, nil))
}

// DiscardPods discards the Pods of a selector.
func (c *Cluster) DiscardPods(ctx context.Context, selector Selector) error {
	pods, err := c.pods(ctx, selector)
	errs := []error{err}
	for i := range pods {
		errs = append(errs, c.Discard(ctx, &pods[i]))
	}
	return errors.Join(errs...)
}

// Release takes the finalizer off a Pod, so nothing blocks its deletion, and adds labels.
func (c *Cluster) Release(ctx context.Context, p *corev1.Pod, labels map[string]string) error {
	finalizers := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == Finalizer })
	if len(finalizers) == len(p.Finalizers) && len(labels) == 0 {
		return nil
	}
	metadata := map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion, "finalizers": finalizers}
	if len(labels) > 0 { // null would remove them all
		metadata["labels"] = labels
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("write a patch for Pod %s/%s: %w", c.Namespace, p.Name, err)
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	_, err = c.Client.Core().Pods(c.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, options)
	if apierrors.IsConflict(err) {
		// Its status has changed meanwhile, as a rule.
		fresh, getErr := c.Pod(ctx, p.Name)
		if getErr == nil && fresh != nil && fresh.UID == p.UID && fresh.ResourceVersion != p.ResourceVersion {
			return c.Release(ctx, fresh, labels)
		}
	}
	if err != nil && !isGone(err) {
		return fmt.Errorf("take the finalizer off Pod %s/%s: %w", c.Namespace, p.Name, err)
	}
	return nil
}

// Keep releases a Pod and labels it as kept for inspection.
func (c *Cluster) Keep(ctx context.Context, p *corev1.Pod) error {
	return c.Release(ctx, p, map[string]string{PartLabel: PartKept})
}
