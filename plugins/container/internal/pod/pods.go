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

// discardGrace is how long containers have that have nothing more to do. The wait container may try to upload something
// with rights that it has no more.
const discardGrace = 2 * time.Second

// CreatePod creates a Pod, or returns the one of that name which is there.
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

// Pod returns a Pod; nil if there is none of that name.
func (c *Cluster) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	p, err := c.Client.Core().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
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

// Stop deletes a Pod. Its containers are asked to end, and have so much time for it, at least a second. With 0 they
// have what the Pod says, and one that is being deleted is left alone. So is one that is gone, or another one of that
// name.
func (c *Cluster) Stop(ctx context.Context, p *corev1.Pod, grace time.Duration) error {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
	if grace > 0 {
		options.GracePeriodSeconds = new(max(int64(grace/time.Second), 1))
	} else if p.DeletionTimestamp != nil {
		return nil
	}
	err := c.Client.Core().Pods(c.Namespace).Delete(ctx, p.Name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Pod %s/%s: %w", c.Namespace, p.Name, err)
	}
	return nil
}

// Discard deletes a Pod that has nothing more to do, and lets it go.
func (c *Cluster) Discard(ctx context.Context, p *corev1.Pod) error {
	return errors.Join(c.Stop(ctx, p, discardGrace), c.Release(ctx, p, nil))
}

// DiscardPods discards the Pods that a selector selects.
func (c *Cluster) DiscardPods(ctx context.Context, selector Selector) error {
	pods, err := c.pods(ctx, selector)
	errs := []error{err}
	for i := range pods {
		errs = append(errs, c.Discard(ctx, &pods[i]))
	}
	return errors.Join(errs...)
}

// Release lets a Pod go: it takes the finalizer off, so that nothing keeps a Pod that is deleted. The labels are added.
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
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("take the finalizer off Pod %s/%s: %w", c.Namespace, p.Name, err)
	}
	return nil
}

// Keep lets a Pod go and labels it, so that it stays for a look at it.
func (c *Cluster) Keep(ctx context.Context, p *corev1.Pod) error {
	return c.Release(ctx, p, map[string]string{PartLabel: PartKept})
}
