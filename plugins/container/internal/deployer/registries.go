package deployer

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/container/internal/config"
	"github.com/pergola-deploy/pergola/sdk"
)

// reasonPullSecret is the reason of the error about a Secret with unusable credentials.
const reasonPullSecret = "RegistryPullSecretInvalid"

// dockerConfig is Docker's configuration.
type dockerConfig struct {
	Auths map[string]json.RawMessage `json:"auths"`
}

// pullCredentials returns Docker's configuration with the credentials for the registry of the image; nil for none.
// Unusable Secrets of the Context may be for other registries and are skipped; those of the provider configuration
// are errors.
func (j *podJob) pullCredentials(ctx context.Context, c *config.Config) ([]byte, error) {
	merged := dockerConfig{Auths: map[string]json.RawMessage{}}
	registries, err := j.registryCredentials(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, found := range registries {
		merged.add(found.DockerConfig, c.Image)
	}
	if len(merged.Auths) == 0 {
		return nil, nil
	}
	document, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("write the credentials for the registry: %w", err)
	}
	return document, nil
}

// registryCredentials returns the credentials of the Secrets in the provider configuration, all of them usable, and
// then those of the Context.
func (j *podJob) registryCredentials(ctx context.Context, c *config.Config) ([]sdk.RegistryCredentials, error) {
	var all []sdk.RegistryCredentials
	for _, s := range c.RegistryPullSecrets {
		found, err := j.request.ResolveRegistryCredentials(ctx, s.Namespace, s.Name)
		if err != nil {
			return nil, err
		}
		if found.Problem != "" {
			return nil, sdk.ConfigurationError(reasonPullSecret, "spec.config: registryPullSecrets: %s", found.Problem)
		}
		all = append(all, *found)
	}
	if j.request.Credentials != nil {
		all = append(all, j.request.Credentials.Registries...)
	}
	return all, nil
}

// add adds the credentials for the registry of an image from a configuration. Earlier ones count.
func (m *dockerConfig) add(document []byte, image string) {
	var found dockerConfig
	if json.Unmarshal(document, &found) != nil {
		return // one with a problem is empty
	}
	for server, auth := range found.Auths {
		if _, ok := m.Auths[server]; !ok && serves(server, registryOf(image)) {
			m.Auths[server] = auth
		}
	}
}

// dockerHub is the default registry of images. It has several names.
const dockerHub = "docker.io"

// registryOf returns the host of an image's registry.
func registryOf(image string) string {
	host, _, found := strings.Cut(image, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" || host == "index."+dockerHub {
		return dockerHub
	}
	return host
}

// serves reports whether a server in Docker's configuration is a registry. Kubernetes allows patterns, too, one for
// each part of a name.
func serves(server, registry string) bool {
	if _, rest, ok := strings.Cut(server, "://"); ok {
		server = rest
	}
	host, _, _ := strings.Cut(server, "/")
	if registry == dockerHub {
		return host == dockerHub || strings.HasSuffix(host, "."+dockerHub)
	}
	matches := func(pattern, part string) bool {
		ok, err := path.Match(pattern, part)
		return err == nil && ok
	}
	return host == registry || slices.EqualFunc(strings.Split(host, "."), strings.Split(registry, "."), matches)
}
