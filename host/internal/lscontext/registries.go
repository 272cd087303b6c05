package lscontext

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// otherToolsKey is the key of a Secret with credentials for other tools of Landscaper.
const otherToolsKey = ".ocmcredentialconfig"

// remedy creates a usable Secret.
const remedy = "kubectl create secret docker-registry"

// registries resolves registryPullSecrets.
func (r *credentialReader) registries(
	ctx context.Context, refs []v1alpha1.LocalObjectReference,
) ([]sdk.RegistryCredentials, error) {
	const list = "registryPullSecrets"
	var entries []sdk.RegistryCredentials
	for i, ref := range refs {
		if i == maxEntries {
			return append(entries, sdk.RegistryCredentials{Problem: r.tooMany(list, len(refs))}), nil
		}
		entry, err := r.registry(ctx, indexed(list, i), ref.Name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// registry resolves one Secret named by a field.
func (r *credentialReader) registry(ctx context.Context, field, name string) (sdk.RegistryCredentials, error) {
	entry := sdk.RegistryCredentials{Secret: cut(name)}
	var config []byte
	err := r.secret(ctx, field, name, func(secret *corev1.Secret) (err error) {
		config, err = dockerConfig(secret)
		return err
	})
	if err == nil {
		err = r.spend(field, len(config))
	}
	if err == nil {
		entry.DockerConfig = config
	}
	entry.Problem, err = told(err)
	return entry, err
}

// registryLogin is the entry of one registry in Docker's configuration. Tools read no other fields.
type registryLogin struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Email         string `json:"email,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	RegistryToken string `json:"registrytoken,omitempty"`
}

// dockerConfig returns Docker's configuration in a Secret. The key counts, and not the type: a Secret of type Opaque
// may have it, too. With both keys the type decides.
func dockerConfig(secret *corev1.Secret) (config []byte, err error) {
	current, hasCurrent := secret.Data[corev1.DockerConfigJsonKey]
	old, hasOld := secret.Data[corev1.DockerConfigKey]
	var parsed struct {
		Auths       map[string]registryLogin `json:"auths"`
		CredsStore  json.RawMessage          `json:"credsStore"`
		CredHelpers json.RawMessage          `json:"credHelpers"`
	}
	key := corev1.DockerConfigJsonKey
	switch _, hasOCM := secret.Data[otherToolsKey]; {
	case hasCurrent && (secret.Type != corev1.SecretTypeDockercfg || !hasOld):
		err = json.Unmarshal(current, &parsed)
	// It is the auths of a newer one.
	case hasOld:
		key, err = corev1.DockerConfigKey, json.Unmarshal(old, &parsed.Auths)
	case hasOCM:
		return nil, fmt.Errorf("holds the unsupported key %s; put the credentials into %s (%s)",
			otherToolsKey, corev1.DockerConfigJsonKey, remedy)
	default:
		return nil, fmt.Errorf("has the type %q and not the key %s; name one of type %s (%s)",
			cut(string(secret.Type)), corev1.DockerConfigJsonKey, corev1.SecretTypeDockerConfigJson, remedy)
	}
	if err != nil {
		path, sentence := mismatch(err, key)
		return nil, fmt.Errorf("%s: %s; create a Secret of type %s anew (%s)", path, sentence,
			corev1.SecretTypeDockerConfigJson, remedy)
	}
	auths := map[string]registryLogin{}
	for registry, login := range parsed.Auths {
		if login != (registryLogin{}) {
			auths[registry] = login
		}
	}
	if len(auths) == 0 && len(parsed.CredsStore)+len(parsed.CredHelpers) > 0 {
		return nil, fmt.Errorf("%s: leaves the credentials to a helper program (credsStore, credHelpers), and the host runs "+
			"none; put them into auths (%s)", key, remedy)
	}
	config, err = json.Marshal(map[string]any{"auths": auths})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return config, nil
}
