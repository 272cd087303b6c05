package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ocmConfigKey is the key of a Secret with credentials for other tools of Landscaper.
const ocmConfigKey = ".ocmcredentialconfig"

// remedy is how to make what can be used.
const remedy = "kubectl create secret docker-registry"

// registries resolves registryPullSecrets.
func (r *resolution) registries(ctx context.Context, refs []v1alpha1.LocalObjectReference) ([]sdk.RegistryCredentials, error) {
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
func (r *resolution) registry(ctx context.Context, field, name string) (sdk.RegistryCredentials, error) {
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

// login is what Docker's configuration has for one registry. Its fields are all that tools read.
type login struct {
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
	_, hasOCM := secret.Data[ocmConfigKey]
	switch {
	case hasCurrent && (secret.Type != corev1.SecretTypeDockercfg || !hasOld):
		return currentConfig(current)
	case hasOld:
		return oldConfig(old)
	case hasOCM:
		return nil, fmt.Sprintf("holds the key %s, which is not supported; put the credentials into %s (%s)", ocmConfigKey, corev1.DockerConfigJsonKey, remedy)
	default:
		return nil, fmt.Sprintf("has the type %q and not the key %s; name one of type %s (%s)", cut(string(secret.Type)), corev1.DockerConfigJsonKey, corev1.SecretTypeDockerConfigJson, remedy)
	}
}

// currentConfig reads .dockerconfigjson.
func currentConfig(document []byte) (config []byte, problem string) {
	const key = corev1.DockerConfigJsonKey
	var parsed struct {
		Auths       map[string]json.RawMessage `json:"auths"`
		CredsStore  json.RawMessage            `json:"credsStore"`
		CredHelpers json.RawMessage            `json:"credHelpers"`
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		return nil, key + `: expected JSON {"auths": {REGISTRY: …}}, but found ` + mistakeAt(err) + "; create it anew (" + remedy + ")"
	}
	logins, problem := loginsOf(key+": auths", parsed.Auths)
	if problem != "" {
		return nil, problem
	}
	if len(logins) == 0 && len(parsed.CredsStore)+len(parsed.CredHelpers) > 0 {
		return nil, key + ": leaves the credentials to a helper program (credsStore, credHelpers), which is not run; put them into auths (" + remedy + ")"
	}
	return marshalLogins(logins)
}

// oldConfig reads .dockercfg, which is what auths is in a newer one.
func oldConfig(document []byte) (config []byte, problem string) {
	const key = corev1.DockerConfigKey
	var parsed map[string]json.RawMessage
	if err := json.Unmarshal(document, &parsed); err != nil {
		return nil, key + ": expected JSON {REGISTRY: …}, but found " + kindOfMistake(err) + "; create a Secret of type " + string(corev1.SecretTypeDockerConfigJson) + " (" + remedy + ")"
	}
	logins, problem := loginsOf(key, parsed)
	if problem != "" {
		return nil, problem
	}
	return marshalLogins(logins)
}

// loginsOf reads the entries for registries, and leaves out those with nothing in them.
func loginsOf(field string, entries map[string]json.RawMessage) (logins map[string]login, problem string) {
	logins = map[string]login{}
	for _, registry := range slices.Sorted(maps.Keys(entries)) {
		var l login
		if err := json.Unmarshal(entries[registry], &l); err != nil {
			var wrongType *json.UnmarshalTypeError
			where, expected := fmt.Sprintf("%s[%q]", field, cut(registry)), "an object"
			if errors.As(err, &wrongType) && wrongType.Field != "" {
				where, expected = where+"."+wrongType.Field, "a text"
			}
			return nil, where + ": expected " + expected + ", but found " + kindOfMistake(err) + "; correct it"
		}
		if l != (login{}) {
			logins[registry] = l
		}
	}
	return logins, ""
}

func marshalLogins(logins map[string]login) (config []byte, problem string) {
	config, err := json.Marshal(map[string]any{"auths": logins})
	if err != nil {
		return nil, "cannot be written as JSON" // the error might quote it
	}
	return config, ""
}

// kindOfMistake says what a decoder of JSON has found, without the values that its error may have.
func kindOfMistake(err error) string {
	var wrongType *json.UnmarshalTypeError
	if !errors.As(err, &wrongType) {
		return "no JSON"
	}
	switch wrongType.Value {
	case "string":
		return "a text"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	default: // "number", with the number
		return "a number"
	}
}

// mistakeAt says what a decoder of JSON has found, and in which field, without the value.
func mistakeAt(err error) string {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return kindOfMistake(err) + " in " + wrongType.Field
	}
	return kindOfMistake(err)
}
