package local

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
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
		err = decode(text, kind, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// decode strictly reads an object of a kind. The error names each field that cannot be read.
func decode(document []byte, kind schema.GroupVersionKind, into client.Object) error {
	content, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	if problems := sdk.DecodeStrictly(content, into); len(problems) > 0 {
		return errors.New(strings.Join(wire.Each(problems, sdk.Problem.String), "; "))
	}
	if found := into.GetObjectKind().GroupVersionKind(); found != kind {
		return fmt.Errorf("expected a %s of %s, but found a %q of %q",
			kind.Kind, kind.GroupVersion(), found.Kind, found.GroupVersion())
	}
	return nil
}

// onlyDocument returns the only document with content of a YAML file; nil if there is none.
func onlyDocument(text []byte) ([]byte, error) {
	all, err := documentsOf(text)
	switch {
	case err != nil || len(all) == 0:
		return nil, err
	case len(all) > 1:
		return nil, errors.New("expected one object, but found several")
	default:
		return all[0], nil
	}
}

// documentsOf returns the documents with content of a YAML file.
func documentsOf(text []byte) (all [][]byte, _ error) {
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil || content != nil { // otherwise a comment
			all = append(all, document)
		}
	}
}

// readSecrets adds the Secrets to the objects.
func (f *CallFlags) readSecrets(objects *store) error {
	for _, path := range f.secrets {
		text, err := os.ReadFile(path)
		if err == nil {
			text, err = onlyDocument(text)
		}
		var secret *corev1.Secret
		if err == nil {
			secret, err = secretOf(text)
		}
		if err == nil {
			err = objects.add(secret)
		}
		if err != nil {
			return fmt.Errorf("--secret: read %s: %w", path, err)
		}
	}
	return nil
}

var secretGVK = corev1.SchemeGroupVersion.WithKind("Secret")

// secretOf returns the Secret in a document. Its error quotes nothing of the content.
func secretOf(document []byte) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if decode(document, secretGVK, secret) != nil {
		return nil, errors.New(`expected a Secret of v1, as "kubectl create secret --dry-run=client -o yaml" writes it`)
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	return secret, nil
}
