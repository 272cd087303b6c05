package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

// exampleRegistry is what stands in the examples for the demo's registry.
const exampleRegistry = "registry.example.org"

const registryUser, registryPassword = "demo", "not-for-everybody"

// startRegistry starts the OCI registry that the helm example's chart is in. It asks for a password, and has a certificate by an authority of
// its own.
func startRegistry() (*chartserver.Registry, error) {
	registry, err := chartserver.NewRegistry(chartserver.Options{Auth: chartserver.Bearer, User: registryUser, Password: registryPassword})
	if err != nil {
		return nil, fmt.Errorf("start the registry: %w", err)
	}
	if _, err := registry.Push("charts/plain", "1.0.0", charts.Pack("plain")); err != nil {
		return nil, errors.Join(fmt.Errorf("push the chart: %w", err), registry.Close())
	}
	return registry, nil
}

// writeHostConfig writes the host's configuration, and returns its path. It tells the helm plugin whom to trust as the registry, and grants the
// container plugin what the documentation says.
func writeHostConfig(dir string, registry *chartserver.Registry) (string, error) {
	type object = map[string]any
	document, err := yaml.Marshal(object{
		"apiVersion": "host.pergola.dev/v1alpha1", "kind": "HostConfiguration",
		"plugins": object{"helm": object{"config": object{
			"apiVersion": "helm.pergola.dev/v1alpha1", "kind": "HelmConfiguration",
			"registries": []object{{"host": registry.Host(), "caData": string(registry.CA())}},
		}}, "container": object{
			"hostCluster": object{"serviceAccount": object{"namespace": "pergola-pods", "name": "container"}},
			"config": object{
				"apiVersion": "container.pergola.dev/v1alpha1", "kind": "ContainerConfiguration",
				"initContainer": object{"image": helperImage},
			},
		}},
	})
	if err != nil {
		return "", fmt.Errorf("write the host's configuration as YAML: %w", err)
	}
	path := filepath.Join(dir, "host.yaml")
	if err := os.WriteFile(path, document, 0o600); err != nil {
		return "", fmt.Errorf("write the host's configuration: %w", err)
	}
	return path, nil
}

// createContext creates the Context of the examples, which names the registry's credentials.
func createContext(ctx context.Context, c client.Client, registry *chartserver.Registry) error {
	const secret = "registry"
	objects := []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: secret, Namespace: namespace}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{
				corev1.DockerConfigJsonKey: chartserver.DockerConfig(registry.Host(), registryUser, registryPassword),
			},
		},
		&v1alpha1.Context{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: namespace},
			ContextConfiguration: v1alpha1.ContextConfiguration{
				RegistryPullSecrets: []v1alpha1.LocalObjectReference{{Name: secret}},
			},
		},
	}
	for _, object := range objects {
		if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create context: %w", err)
		}
	}
	return nil
}
