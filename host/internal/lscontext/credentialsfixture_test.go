package lscontext

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// password is part of every secret of these tests, and of nothing else.
const password = "t0ps3cret"

// objects is a Reader of Secrets by name and of the data of one ConfigMap, places. It counts how often it was asked.
type objects struct {
	secrets map[string]*corev1.Secret
	// stale are older versions of some, returned unless a fresh one is asked for.
	stale  map[string]*corev1.Secret
	places map[string]string // nil if there is no such ConfigMap
	err    error             // of each read

	asked int
}

var _ Reader = (*objects)(nil)

// read notes a read, and returns its error.
func (o *objects) read(kind string, name types.NamespacedName, found bool) error {
	o.asked++
	err := o.err
	if err == nil && !found {
		err = apierrors.NewNotFound(corev1.Resource(kind), name.Name)
	}
	switch {
	case name.Namespace != "shop":
		return fmt.Errorf("the namespace %q is none of the Context's", name.Namespace)
	case err != nil:
		return fmt.Errorf("get %s %q: %w", kind, name, err)
	}
	return nil
}

func (o *objects) Secret(_ context.Context, name types.NamespacedName, fresh bool) (*corev1.Secret, error) {
	secret := o.secrets[name.Name]
	if stale, ok := o.stale[name.Name]; ok && !fresh {
		secret = stale
	}
	if err := o.read("Secret", name, secret != nil); err != nil {
		return nil, err
	}
	return secret, nil
}

func (o *objects) ConfigMap(_ context.Context, name types.NamespacedName, _ bool) (*corev1.ConfigMap, error) {
	if err := o.read("ConfigMap", name, name.Name == "places" && o.places != nil); err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{Data: o.places}, nil
}

func secretOf(secretType corev1.SecretType, data ...string) *corev1.Secret {
	secret := &corev1.Secret{Type: secretType, Data: map[string][]byte{}}
	for i := 0; i < len(data); i += 2 {
		secret.Data[data[i]] = []byte(data[i+1])
	}
	return secret
}

func dockerSecret(config string) *corev1.Secret {
	return secretOf(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, config)
}

func opaque(data ...string) *corev1.Secret { return secretOf(corev1.SecretTypeOpaque, data...) }

// newContext returns the Context shop/default with pull secrets of these names.
func newContext(pullSecrets ...string) *v1alpha1.Context {
	lsContext := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}}
	for _, name := range pullSecrets {
		lsContext.RegistryPullSecrets = append(lsContext.RegistryPullSecrets, v1alpha1.LocalObjectReference{Name: name})
	}
	return lsContext
}

// withRepositories adds the configuration of chart repositories.
func withRepositories(lsContext *v1alpha1.Context, document string) *v1alpha1.Context {
	lsContext.Configurations = map[string]runtime.RawExtension{ChartRepositoriesKey: {Raw: []byte(document)},
		"other": {Raw: []byte(`{}`)}}
	return lsContext
}

func marshal(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newAuthority returns the certificate of an authority and its key, in PEM.
var newAuthority = sync.OnceValue(func() (pair struct{ certificate, key string }) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("ca", nil, nil)
	if err != nil {
		panic(err) //nolint:forbidigo // there is no test yet that could fail
	}
	pair.certificate, pair.key = string(certificate), string(key)
	return pair
})

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
