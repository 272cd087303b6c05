package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	revision "github.com/pergola-deploy/pergola/plugins/helm/internal/release"
)

// secrets are the Secrets of one release. They are listed once; after that the writes keep them current, for Helm
// lists and reads them again and again. A write fails if another client has written or created the same Secret
// meanwhile.
type secrets struct {
	corev1client.SecretInterface

	selector, release string

	known map[string]corev1.Secret // nil before the list
}

func newSecrets(client corev1client.SecretInterface, release string) *secrets {
	selector := labels.Set{"name": release, "owner": "helm"}.AsSelector().String()
	return &secrets{SecretInterface: client, selector: selector, release: release}
}

// List returns the known Secrets; its first call reads them.
func (s *secrets) List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("read the selector: %w", err)
	}
	if s.known == nil {
		list, err := s.SecretInterface.List(ctx, metav1.ListOptions{LabelSelector: s.selector})
		if err != nil {
			return nil, err
		}
		s.known = map[string]corev1.Secret{}
		for _, item := range list.Items {
			if revision.VersionOf(item.Name, s.release) > 0 { // Helm would read others with these labels, too
				s.known[item.Name] = item
			}
		}
	}
	found := &corev1.SecretList{}
	for _, name := range slices.Sorted(maps.Keys(s.known)) {
		if secret := s.known[name]; selector.Matches(labels.Set(secret.Labels)) {
			secret.Labels = maps.Clone(secret.Labels) // Helm passes them on
			found.Items = append(found.Items, secret)
		}
	}
	return found, nil
}

// Get returns a known Secret.
func (s *secrets) Get(ctx context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	all, err := s.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range all.Items {
		if all.Items[i].Name == name {
			return &all.Items[i], nil
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

// Create creates a Secret.
func (s *secrets) Create(
	ctx context.Context, secret *corev1.Secret, opts metav1.CreateOptions,
) (*corev1.Secret, error) {

	created, err := s.SecretInterface.Create(ctx, secret, opts)
	s.keep(created, err)
	return created, err
}

// Update replaces a Secret. After a lost write it reads the Secret again.
func (s *secrets) Update(
	ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions,
) (*corev1.Secret, error) {

	known, err := s.Get(ctx, secret.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	secret.ResourceVersion = known.ResourceVersion
	updated, err := s.SecretInterface.Update(ctx, secret, opts)
	s.keep(updated, err)
	return updated, err
}

// keep records a write. After a failure its result is unknown, and the Secrets are listed again.
func (s *secrets) keep(secret *corev1.Secret, err error) {
	switch {
	case err != nil:
		s.known = nil
	case s.known != nil:
		s.known[secret.Name] = *secret
	}
}

// Delete deletes a Secret; it may be gone already.
func (s *secrets) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := s.SecretInterface.Delete(ctx, name, opts); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	delete(s.known, name)
	return nil
}

// KeyOf returns the name of a revision's Secret.
func KeyOf(r *release.Release) string {
	return fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, r.Name, r.Version)
}
