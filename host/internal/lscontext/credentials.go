package lscontext

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxEntries bounds the entries of either kind: each may cost a request.
	maxEntries = 50
	// maxBytes bounds the credentials handed over in one call; a message to a plugin has at most 64 MiB.
	maxBytes  = 8 << 20
	maxQuoted = 256
)

// Credentials returns the credentials of a Context; never nil without an error. The error wraps that of the reader, and
// is worth another try. Credentials blocks on API requests until ctx ends.
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

// NamedCredentials returns the credentials for registries in one Secret, named elsewhere than in a Context, for an item
// of the given namespace; an empty ref.Namespace means that one. A problem does not name the place of the reference;
// the caller knows it. The error is as with Credentials.
func NamedCredentials(
	ctx context.Context, reader SecretReader, namespace string, ref types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	if ref.Namespace != "" && ref.Namespace != namespace {
		return &sdk.RegistryCredentials{Secret: cut(ref.Name), Problem: fmt.Sprintf(
			"Secret %q: the host reads Secrets only from the namespace of the deploy item, %q; create the Secret there, "+
				"and refer to it", cut(ref.Namespace)+"/"+cut(ref.Name), namespace)}, nil
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
	// The bytes still left to hand over.
	left int
}

// tooMany is the problem of surplus entries.
func (r *credentialReader) tooMany(field string, entries int) string {
	return r.wrong(field, "has %d entries, but only the first %d count; remove some", entries, maxEntries).Error()
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

// secret has take read a Secret of the Context's namespace named by a field of the Context.
func (r *credentialReader) secret(ctx context.Context, field, name string, take func(*corev1.Secret) error) error {
	kind := named[corev1.Secret]{kind: "Secret", resource: "secrets", advice: "create it, or remove the entry",
		read: r.reader.Secret}
	return kind.confirmed(ctx, r.place, field, name, take)
}
