package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReadItem reads the DeployItem in a file, or in standard input for "-".
func ReadItem(path string, stdin io.Reader) (*v1alpha1.DeployItem, error) {
	item := &v1alpha1.DeployItem{}
	if err := readObject(path, stdin, v1alpha1.DeployItemGVK, item); err != nil {
		return nil, err
	}
	if item.Name == "" {
		return nil, fmt.Errorf("read %s: metadata.name is missing", path)
	}
	if item.Spec.Type == "" {
		return nil, fmt.Errorf("read %s: spec.type is missing; it selects the plugin", path)
	}
	return item, nil
}

// readObject strictly reads the only object in a YAML file, or in standard input for "-".
func readObject(path string, stdin io.Reader, kind schema.GroupVersionKind, into client.Object) error {
	read := func() ([]byte, error) { return os.ReadFile(path) }
	if path == "-" && stdin != nil {
		path, read = "standard input", func() ([]byte, error) { return io.ReadAll(stdin) }
	}
	text, err := read()
	if err == nil {
		text, err = onlyDocument(text)
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if found := into.GetObjectKind().GroupVersionKind(); found != kind {
		return fmt.Errorf("read %s: expected a %s of %s, but found a %q of %q",
			path, kind.Kind, kind.GroupVersion(), found.Kind, found.GroupVersion())
	}
	return nil
}

var errSeveral = errors.New("expected one object, but found several")

// onlyDocument returns the only document with content of a YAML file; nil if there is none.
func onlyDocument(text []byte) ([]byte, error) {
	var only []byte
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return only, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		switch err := yaml.Unmarshal(document, &content); {
		case err == nil && content == nil: // a comment
		case only != nil:
			return nil, errSeveral
		default:
			only = document
		}
	}
}

// secretFiles are the Secrets of files by name, in the namespace of the Context.
type secretFiles map[string]*corev1.Secret

var _ lscontext.SecretReader = secretFiles{}

// Secret implements lscontext.SecretReader.
func (s secretFiles) Secret(_ context.Context, name types.NamespacedName, _ bool) (*corev1.Secret, error) {
	if secret, ok := s[name.Name]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)
}

// configMapFile is the ConfigMap of a file, in the namespace of the Context; nil for none.
type configMapFile struct{ object *corev1.ConfigMap }

var _ lscontext.ConfigMapReader = configMapFile{}

// ConfigMap implements lscontext.ConfigMapReader.
func (c configMapFile) ConfigMap(_ context.Context, name types.NamespacedName, _ bool) (*corev1.ConfigMap, error) {
	if c.object == nil || c.object.Name != name.Name {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name.Name)
	}
	return c.object, nil
}

// readSecrets reads the Secrets. Its errors quote nothing of their content.
func (f *CallFlags) readSecrets() (secretFiles, error) {
	secrets := secretFiles{}
	for _, path := range f.secrets {
		secret := &corev1.Secret{}
		err := readObject(path, nil, corev1.SchemeGroupVersion.WithKind("Secret"), secret)
		switch file := (*fs.PathError)(nil); {
		case errors.As(err, &file) || errors.Is(err, errSeveral):
			return nil, fmt.Errorf("--secret: %w", err)
		case err != nil:
			return nil, fmt.Errorf(`--secret: read %s: expected a Secret of v1, `+
				`as "kubectl create secret docker-registry --dry-run=client -o yaml" writes it`, path)
		case secret.Name == "":
			return nil, fmt.Errorf("--secret: read %s: metadata.name is missing", path)
		case secrets[secret.Name] != nil:
			return nil, fmt.Errorf("--secret: read %s: the Secret %q is there twice", path, secret.Name)
		case secret.Data == nil:
			secret.Data = map[string][]byte{}
		}
		for key, value := range secret.StringData {
			secret.Data[key] = []byte(value)
		}
		secrets[secret.Name] = secret
	}
	return secrets, nil
}
