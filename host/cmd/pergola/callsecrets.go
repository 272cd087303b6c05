package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// fileSecrets are the Secrets of files, which count as those of the Context's namespace.
type fileSecrets map[string]*corev1.Secret

var _ target.SecretReader = fileSecrets{}

// Secret implements target.SecretReader.
func (s fileSecrets) Secret(_ context.Context, name types.NamespacedName, _ bool) (*corev1.Secret, error) {
	if secret, ok := s[name.Name]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)
}

// readSecrets reads the Secrets of files.
func (f *callFlags) readSecrets() (fileSecrets, error) {
	secrets := fileSecrets{}
	for _, path := range f.secrets {
		secret, err := readSecret(path)
		if err != nil {
			return nil, fmt.Errorf("--secret: %w", err)
		}
		if secrets[secret.Name] != nil {
			return nil, fmt.Errorf("--secret: read %s: the Secret %q is there twice", path, secret.Name)
		}
		secrets[secret.Name] = secret
	}
	return secrets, nil
}

// registries are the credentials for registries in the Secrets, by their names, as an item of the namespace can name them.
func (s fileSecrets) registries(ctx context.Context, namespace string) (map[string]*sdk.RegistryCredentials, error) {
	found := make(map[string]*sdk.RegistryCredentials, len(s))
	for name := range s {
		credentials, err := target.NamedCredentials(ctx, s, namespace, types.NamespacedName{Name: name})
		if err != nil {
			return nil, err
		}
		found[name] = credentials
	}
	return found, nil
}

// readSecret reads a Secret. Its errors hold nothing of what is in it.
func readSecret(path string) (*corev1.Secret, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if text, err = onlyDocument(text); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	secret := &corev1.Secret{}
	if yaml.UnmarshalStrict(text, secret) != nil || secret.Kind != "Secret" || secret.APIVersion != "v1" {
		return nil, fmt.Errorf(`read %s: expected a Secret of v1, as "kubectl create secret docker-registry --dry-run=client -o yaml" writes it`, path)
	}
	if secret.Name == "" {
		return nil, fmt.Errorf("read %s: metadata.name is missing", path)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	return secret, nil
}
