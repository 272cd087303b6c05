package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createNamespace is Helm's option of that name, with the same label. An existing namespace need not be creatable.
func (h *History) createNamespace() error {
	name := h.req.Release.Namespace
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	_, err := h.core.Namespaces().Create(h.ctx, ns, metav1.CreateOptions{FieldManager: "helm"})
	if apierrors.IsForbidden(err) {
		if _, missing := h.core.Namespaces().Get(h.ctx, name, metav1.GetOptions{}); missing == nil {
			return nil
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// FindNamespace fails if the namespace of the release is missing and not to be created.
func (h *History) FindNamespace() error {
	_, err := h.core.Namespaces().Get(h.ctx, h.req.Release.Namespace, metav1.GetOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) && h.req.CreateNamespace {
		return nil // not allowed to read it, or it will be there
	}
	return err
}
