package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxEntries bounds the entries of either kind: each may cost a request.
	maxEntries = 50
	// maxBytes bounds all that is handed over in one call; a message to a plugin has at most 64 MiB.
	maxBytes  = 8 << 20
	maxQuoted = 256
)

// SecretReader reads Secrets; see Resolver.
type SecretReader interface {
	// Secret returns a Secret, of which Type and Data count and must not be changed. It may be an older version of it
	// unless fresh is true. The error wraps that of the API server; that there is none was seen with a live read.
	Secret(ctx context.Context, name types.NamespacedName, fresh bool) (*corev1.Secret, error)
}

// Credentials returns the credentials that a Context names, as the package comment describes; never nil without an
// error. The error is that of the reader, wrapped, and worth another try. Credentials blocks on API requests until ctx
// ends.
func Credentials(ctx context.Context, reader SecretReader, lsContext *v1alpha1.Context) (*sdk.Credentials, error) {
	r := &credentialReader{reader: reader, place: placeOf(lsContext), left: maxBytes}
	registries, err := r.registries(ctx, lsContext.RegistryPullSecrets)
	if err != nil {
		return nil, fmt.Errorf("resolve credentials of %s: %w", r.where, err)
	}
	repositories, err := r.chartRepositories(ctx, lsContext.Configurations)
	if err != nil {
		return nil, fmt.Errorf("resolve credentials of %s: %w", r.where, err)
	}
	return &sdk.Credentials{Registries: registries, ChartRepositories: repositories}, nil
}

// NamedCredentials returns the credentials for registries in one Secret that something else than a Context names, for
// an item of the given namespace; an empty ref.Namespace is that one. A problem does not say what names the Secret,
// which whoever asks knows. The error is as with Credentials.
func NamedCredentials(
	ctx context.Context, reader SecretReader, namespace string, ref types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	if ref.Namespace != "" && ref.Namespace != namespace {
		return &sdk.RegistryCredentials{Secret: cut(ref.Name), Problem: fmt.Sprintf(
			"Secret %q: the host reads no Secrets of other namespaces than that of the deploy item, which is %q; "+
				"create the Secret there, and name that one", cut(ref.Namespace)+"/"+cut(ref.Name), namespace)}, nil
	}
	r := &credentialReader{reader: reader, place: place{namespace: namespace}, left: maxBytes}
	entry, err := r.registry(ctx, "", ref.Name)
	if err != nil {
		return nil, fmt.Errorf("read Secret %q: %w", namespace+"/"+cut(ref.Name), err)
	}
	return &entry, nil
}

// credentialReader resolves the credentials of one Context, or of one Secret. Its errors are texts for the user about
// these credentials, but for a *apiServerError.
type credentialReader struct {
	place
	reader SecretReader
	left   int // bytes that may still be handed over
}

// place is where names of objects are found, and the objects.
type place struct {
	namespace string
	where     string // the Context, in messages; empty if they name no field
}

func placeOf(lsContext *v1alpha1.Context) place {
	return place{
		namespace: lsContext.Namespace, where: fmt.Sprintf("Context %q", lsContext.Namespace+"/"+lsContext.Name),
	}
}

// apiServerError is an error of the API server that says nothing about the object.
type apiServerError struct{ error }

// told splits what was found out about an object into a text for the user and the error of the API server.
func told(err error) (problem string, _ error) {
	if failed := (*apiServerError)(nil); errors.As(err, &failed) {
		return "", failed.error
	}
	if err != nil {
		problem = err.Error()
	}
	return problem, nil
}

// wrong is an error about a field of the Context.
func (p place) wrong(field, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if p.where == "" {
		return err
	}
	return fmt.Errorf("%s: %s: %w", p.where, field, err)
}

// tooMany is what is told about the entries that do not count.
func (r *credentialReader) tooMany(field string, entries int) string {
	return r.wrong(field, "has %d entries, of which only the first %d count; remove some", entries, maxEntries).Error()
}

// spend fails if so many bytes cannot be handed over any more.
func (r *credentialReader) spend(field string, bytes int) error {
	if bytes > r.left {
		return r.wrong(field, "is left out, because the Context names more than %d MiB of credentials; remove some",
			maxBytes>>20)
	}
	r.left -= bytes
	return nil
}

// secret has take look at a Secret of the Context's namespace that a field of the Context names.
func (r *credentialReader) secret(ctx context.Context, field, name string, take func(*corev1.Secret) error) error {
	kind := named[corev1.Secret]{kind: "Secret", resource: "secrets", advice: "create it, or remove the entry",
		read: r.reader.Secret}
	return kind.confirmed(ctx, r.place, field, name, take)
}

// named are the objects of a kind that fields of a Context name.
type named[T any] struct {
	kind, resource string
	advice         string // for an object that does not exist
	read           func(ctx context.Context, name types.NamespacedName, fresh bool) (*T, error)
}

// confirmed has take look at an object of the Context's namespace that a field of the Context names. What seems wrong
// is confirmed with a live read, because it may just have been mended.
func (n named[T]) confirmed(ctx context.Context, in place, field, name string, take func(*T) error) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return in.wrong(field+".name", "no %s can have the name %q; correct it", n.kind, cut(name))
	}
	full := types.NamespacedName{Namespace: in.namespace, Name: name}
	var problem error
	for _, fresh := range []bool{false, true} {
		object, err := n.read(ctx, full, fresh)
		switch {
		case apierrors.IsNotFound(err):
			return in.wrong(field+".name", "there is no %s %q; %s", n.kind, full, n.advice)
		case apierrors.IsForbidden(err):
			return in.wrong(field+".name", `the %s %q may not be read; allow "get" for %s in the namespace %q`,
				n.kind, full, n.resource, in.namespace)
		case err != nil:
			return &apiServerError{err}
		}
		if problem = take(object); problem == nil {
			return nil
		}
	}
	return in.wrong(field, "%s %q: %w", n.kind, full, problem)
}

// cut bounds what is quoted of a Context or a Secret.
func cut(found string) string { return text.Cut(found, maxQuoted) }

// ocmConfigKey is the key of a Secret with credentials for other tools of Landscaper.
const ocmConfigKey = ".ocmcredentialconfig"

// remedy is how to make what can be used.
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

// registry resolves one Secret that a field names.
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

// registryLogin is what Docker's configuration has for one registry. Its fields are all that tools read.
type registryLogin struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Email         string `json:"email,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	RegistryToken string `json:"registrytoken,omitempty"`
}

// dockerConfig returns the configuration of Docker that a Secret holds. The key counts, and not the type: a Secret of
// type Opaque may have it, too. If there are both keys, the type tells which is meant.
func dockerConfig(secret *corev1.Secret) ([]byte, error) {
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
		return nil, fmt.Errorf("holds the key %s, which is not supported; put the credentials into %s (%s)",
			ocmConfigKey, corev1.DockerConfigJsonKey, remedy)
	default:
		return nil, fmt.Errorf("has the type %q and not the key %s; name one of type %s (%s)",
			cut(string(secret.Type)), corev1.DockerConfigJsonKey, corev1.SecretTypeDockerConfigJson, remedy)
	}
	if err != nil {
		return nil, fmt.Errorf("%s; create a Secret of type %s anew (%s)", mismatch(err, key),
			corev1.SecretTypeDockerConfigJson, remedy)
	}
	auths := map[string]registryLogin{}
	for registry, login := range parsed.Auths {
		if login != (registryLogin{}) {
			auths[registry] = login
		}
	}
	if len(auths) == 0 && len(parsed.CredsStore)+len(parsed.CredHelpers) > 0 {
		return nil, fmt.Errorf("%s: leaves the credentials to a helper program (credsStore, credHelpers), which is not run; "+
			"put them into auths (%s)", key, remedy)
	}
	return []byte(encode(map[string]any{"auths": auths})), nil
}
