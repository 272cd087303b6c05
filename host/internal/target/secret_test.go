package target

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// An unchanged Secret costs one request, however often it is read, and a changed one another; whoever wants to be sure gets what is there.
func TestSecretIsReadOncePerVersion(t *testing.T) {
	t.Parallel()
	version := func(v string) *corev1.Secret {
		secret := newSecret(v, map[string]string{"a": "version " + v})
		secret.Type = corev1.SecretTypeDockerConfigJson
		return secret
	}
	cached, live := newCache(version("1")), newStore(version("1"))
	r := NewResolver(cached.reader(), live.reader())
	read := func(fresh bool) string {
		t.Helper()
		secret, err := r.Secret(t.Context(), types.NamespacedName{Namespace: "foo", Name: "my-secret"}, fresh)
		if err != nil || secret.Type != corev1.SecretTypeDockerConfigJson {
			t.Fatalf("expected the Secret with its type, but found %v, %v", secret, err)
		}
		return string(secret.Data["a"])
	}
	for range 3 {
		if got := read(false); got != "version 1" || live.requests.Load() != 1 {
			t.Errorf("expected version 1 by one request, but found %q by %d", got, live.requests.Load())
		}
	}
	live.put(version("2"))
	if got := read(false); got != "version 1" {
		t.Errorf("expected what the cache knows of, but found %q", got)
	}
	if got := read(true); got != "version 2" {
		t.Errorf("expected what is there, but found %q", got)
	}
	cached.put(version("2"))
	if got, requests := read(false), live.requests.Load(); got != "version 2" || requests != 2 {
		t.Errorf("expected version 2 by two requests, but found %q by %d", got, requests)
	}
}

func TestSecretThatIsMissing(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "foo", Name: "my-secret"}
	live := newStore()
	if _, err := NewResolver(newCache().reader(), live.reader()).Secret(t.Context(), name, false); !apierrors.IsNotFound(err) || live.requests.Load() != 1 {
		t.Errorf("expected that a live read finds none, but found %v after %d", err, live.requests.Load())
	}
	live = newStore(newSecret("1", map[string]string{"a": "b"}))
	if secret, err := NewResolver(newCache().reader(), live.reader()).Secret(t.Context(), name, false); err != nil || string(secret.Data["a"]) != "b" {
		t.Errorf("expected the one that the cache does not know of yet, but found %v, %v", secret, err)
	}
	live.err = errors.New("the API server is away")
	if _, err := NewResolver(newCache().reader(), live.reader()).Secret(t.Context(), name, false); !errors.Is(err, live.err) {
		t.Errorf("expected the error of the reader, but found %v", err)
	}
}
