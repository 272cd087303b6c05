package helm3

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// secrets are those of one release. They are listed once, and after that this process knows what it has written itself: Helm lists and
// reads them again and again. If somebody else works on the release at the same time, the creation of the next revision fails.
type secrets struct {
	corev1client.SecretInterface

	selector string

	mu     sync.Mutex
	listed bool
	known  map[string]*corev1.Secret
}

func newSecrets(client corev1client.SecretInterface, release string) *secrets {
	selector := labels.Set{"name": release, "owner": "helm"}.AsSelector().String()
	return &secrets{SecretInterface: client, selector: selector, known: map[string]*corev1.Secret{}}
}

// List returns those that are known, after it was called first.
func (s *secrets) List(ctx context.Context, opts metav1.ListOptions) (*corev1.SecretList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("read the selector: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed {
		list, err := s.SecretInterface.List(ctx, metav1.ListOptions{LabelSelector: s.selector})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			s.known[list.Items[i].Name] = &list.Items[i]
		}
		s.listed = true
	}
	found := &corev1.SecretList{}
	for _, name := range slices.Sorted(maps.Keys(s.known)) {
		if secret := s.known[name]; selector.Matches(labels.Set(secret.Labels)) {
			found.Items = append(found.Items, *copyOf(secret))
		}
	}
	return found, nil
}

// Get returns one that is known.
func (s *secrets) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed {
		return s.SecretInterface.Get(ctx, name, opts)
	}
	if secret, ok := s.known[name]; ok {
		return copyOf(secret), nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

// copyOf leaves the content alone, which nobody changes and which may be large.
func copyOf(secret *corev1.Secret) *corev1.Secret {
	c := *secret
	c.Labels = maps.Clone(secret.Labels)
	return &c
}

// Create creates one.
func (s *secrets) Create(ctx context.Context, secret *corev1.Secret, opts metav1.CreateOptions) (*corev1.Secret, error) {
	created, err := s.SecretInterface.Create(ctx, secret, opts)
	return s.keep(created, err)
}

// Update replaces one.
func (s *secrets) Update(ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error) {
	updated, err := s.SecretInterface.Update(ctx, secret, opts)
	return s.keep(updated, err)
}

func (s *secrets) keep(secret *corev1.Secret, err error) (*corev1.Secret, error) {
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[secret.Name] = secret
	return secret, nil
}

// Delete deletes one. It may be gone already.
func (s *secrets) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if err := s.SecretInterface.Delete(ctx, name, opts); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, name)
	return nil
}

// version returns the resource version of one that is known.
func (s *secrets) version(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret, ok := s.known[name]; ok {
		return secret.ResourceVersion
	}
	return ""
}

// without returns the names of those that are known and whose revisions are not among those given.
func (s *secrets) without(revisions map[string]struct{}) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name, secret := range s.known {
		if _, ok := revisions[secret.Labels["version"]]; !ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// forget has them listed again.
func (s *secrets) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = false
	s.known = map[string]*corev1.Secret{}
}
