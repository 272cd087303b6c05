package target

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ocmConfigKey is the key of a Secret with credentials for other tools of Landscaper.
const ocmConfigKey = ".ocmcredentialconfig"

// remedy is how to make what can be used.
const remedy = "kubectl create secret docker-registry"

// registries resolves registryPullSecrets.
func (r *credentialReader) registries(ctx context.Context, refs []v1alpha1.LocalObjectReference) ([]sdk.RegistryCredentials, error) {
	const list = "registryPullSecrets"
	var entries []sdk.RegistryCredentials
	for i, ref := range refs {
		if i == maxEntries {
			return append(entries, sdk.RegistryCredentials{Problem: r.problemOfRest(list, len(refs))}), nil
		}
		entry, err := r.registry(ctx, fmt.Sprintf("%s[%d]", list, i), ref.Name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// registry resolves one Secret that a field names.
func (r *credentialReader) registry(ctx context.Context, field, name string) (sdk.RegistryCredentials, error) {
	var config []byte
	problem, err := r.secret(ctx, field, name, func(secret *corev1.Secret) (what string) {
		if config, what = dockerConfig(secret); what != "" {
			return r.problemOfSecret(field, name, "%s", what)
		}
		return ""
	})
	if err != nil {
		return sdk.RegistryCredentials{}, err
	}
	if problem == "" && !r.spend(len(config)) {
		problem = r.problemOfSize(field)
	}
	if problem != "" {
		config = nil
	}
	return sdk.RegistryCredentials{Secret: cut(name), DockerConfig: config, Problem: problem}, nil
}

// registryLogin is what Docker's configuration has for one registry. Its fields are all that tools read.
type registryLogin struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Email         string `json:"email,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	RegistryToken string `json:"registrytoken,omitempty"`
}

// dockerConfig returns the configuration of Docker that a Secret holds, or what is wrong with it. The key counts, and not the type: a Secret
// of type Opaque may have it, too. If there are both keys, the type tells which is meant.
func dockerConfig(secret *corev1.Secret) (config []byte, problem string) {
	current, hasCurrent := secret.Data[corev1.DockerConfigJsonKey]
	old, hasOld := secret.Data[corev1.DockerConfigKey]
	var parsed struct {
		Auths       map[string]registryLogin `json:"auths"`
		CredsStore  json.RawMessage          `json:"credsStore"`
		CredHelpers json.RawMessage          `json:"credHelpers"`
	}
	key, err := corev1.DockerConfigJsonKey, error(nil)
	switch _, hasOCM := secret.Data[ocmConfigKey]; {
	case hasCurrent && (secret.Type != corev1.SecretTypeDockercfg || !hasOld):
		err = json.Unmarshal(current, &parsed)
	case hasOld: // it is what auths is in a newer one
		key, err = corev1.DockerConfigKey, json.Unmarshal(old, &parsed.Auths)
	case hasOCM:
		return nil, fmt.Sprintf("holds the key %s, which is not supported; put the credentials into %s (%s)",
			ocmConfigKey, corev1.DockerConfigJsonKey, remedy)
	default:
		return nil, fmt.Sprintf("has the type %q and not the key %s; name one of type %s (%s)",
			cut(string(secret.Type)), corev1.DockerConfigJsonKey, corev1.SecretTypeDockerConfigJson, remedy)
	}
	if err != nil {
		return nil, fmt.Sprintf("%s; create a Secret of type %s anew (%s)", mismatch(err, key), corev1.SecretTypeDockerConfigJson, remedy)
	}
	maps.DeleteFunc(parsed.Auths, func(_ string, l registryLogin) bool { return l == registryLogin{} })
	if len(parsed.Auths) == 0 && len(parsed.CredsStore)+len(parsed.CredHelpers) > 0 {
		return nil, key + ": leaves the credentials to a helper program (credsStore, credHelpers), which is not run; " +
			"put them into auths (" + remedy + ")"
	}
	if parsed.Auths == nil {
		parsed.Auths = map[string]registryLogin{}
	}
	config, err = json.Marshal(map[string]any{"auths": parsed.Auths})
	if err != nil {
		return nil, "cannot be written as JSON" // the error might quote it
	}
	return config, ""
}
