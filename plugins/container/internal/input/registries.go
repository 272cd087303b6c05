package input

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// reasonPullSecret is the reason of the error about a Secret with unusable credentials.
const reasonPullSecret = "RegistryPullSecretInvalid"

// dockerConfig is Docker's configuration.
type dockerConfig struct {
	Auths map[string]json.RawMessage `json:"auths"`
}

// PullCredentials returns Docker's configuration with the credentials for the registry of the image; nil for none.
// Unusable Secrets of the Context may be for other registries and are skipped; those of the provider configuration
// are errors.
func PullCredentials(ctx context.Context, req *sdk.Request, c *v1alpha1.ProviderConfiguration) ([]byte, error) {
	merged := dockerConfig{Auths: map[string]json.RawMessage{}}
	registries, err := registryCredentials(ctx, req, c)
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
func registryCredentials(
	ctx context.Context, req *sdk.Request, c *v1alpha1.ProviderConfiguration,
) ([]sdk.RegistryCredentials, error) {
	var all []sdk.RegistryCredentials
	for _, s := range c.RegistryPullSecrets {
		found, err := req.ResolveRegistryCredentials(ctx, s.Namespace, s.Name)
		if err != nil {
			return nil, err
		}
		if found.Problem != "" {
			return nil, sdk.ConfigurationError(reasonPullSecret, "spec.config: registryPullSecrets: %s", found.Problem)
		}
		all = append(all, *found)
	}
	if req.Credentials != nil {
		all = append(all, req.Credentials.Registries...)
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

// registryOf returns the host of an image's registry. Docker Hub is the default.
func registryOf(image string) string {
	host, _, found := strings.Cut(image, "/")
	if !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host = fetch.DockerHub
	}
	return fetch.NormalizeHost(host)
}

// serves reports whether a server in Docker's configuration is a registry. One with a user is a mistake.
func serves(server, registry string) bool {
	return !strings.Contains(server, "@") && fetch.Serves(server, registry)
}
