package target

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// store is a client that counts how often it is asked. As a cache it refuses to hand out the data of Secrets and
// ConfigMaps.
type store struct {
	client.Reader

	isCache  bool
	err      error
	objects  map[string]client.Object
	requests atomic.Int64
}

func newStore(t *testing.T, objects ...client.Object) *store {
	t.Helper()
	s := &store{objects: map[string]client.Object{}}
	s.put(t, objects...)
	return s
}

func newCache(t *testing.T, objects ...client.Object) *store {
	t.Helper()
	s := newStore(t, objects...)
	s.isCache = true
	return s
}

// put adds objects, or puts them into the place of those of their names.
func (s *store) put(t *testing.T, objects ...client.Object) {
	t.Helper()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		s.objects[fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))] = object
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, object := range s.objects {
		builder.WithObjects(object)
	}
	s.Reader = builder.WithInterceptorFuncs(interceptor.Funcs{Get: s.get}).Build()
}

func (s *store) get(
	ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption,
) error {
	s.requests.Add(1)
	switch object.(type) {
	case *corev1.Secret, *corev1.ConfigMap:
		if s.isCache {
			return fmt.Errorf("%T %s was read from the cache", object, key)
		}
	}
	return cmp.Or(s.err, c.Get(ctx, key, object, o...))
}

// tokens issues tokens by a function, which gets the number of the request.
type tokens struct {
	client.SubResourceClient

	issue    func(ctx context.Context, n int64) (authenticationv1.TokenRequestStatus, error)
	requests atomic.Int64
	// last is what was asked for by the last request.
	last atomic.Pointer[askedFor]
}

type askedFor struct {
	Account   types.NamespacedName
	Audiences []string
	Seconds   int64
}

func (f *tokens) SubResource(string) client.SubResourceClient { return f }

func (f *tokens) Create(
	ctx context.Context, account, request client.Object, _ ...client.SubResourceCreateOption,
) (err error) {
	r := request.(*authenticationv1.TokenRequest)
	f.last.Store(&askedFor{
		Account: client.ObjectKeyFromObject(account), Audiences: r.Spec.Audiences, Seconds: *r.Spec.ExpirationSeconds,
	})
	r.Status, err = f.issue(ctx, f.requests.Add(1))
	return err
}

func meta(name, resourceVersion string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "foo", Name: name, UID: types.UID("uid-" + name), ResourceVersion: resourceVersion}
}

func newItem(target string) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{ObjectMeta: meta("item", "1")}
	if target != "" {
		item.Spec.Target = &v1alpha1.ObjectReference{Name: target, Namespace: "elsewhere"}
	}
	return item
}

func inlineTarget(resourceVersion, config string) *v1alpha1.Target {
	target := &v1alpha1.Target{ObjectMeta: meta("my-target", resourceVersion)}
	target.Spec.Type = v1alpha1.KubernetesClusterTargetType
	if config != "" {
		target.Spec.Configuration = &runtime.RawExtension{Raw: []byte(config)}
	}
	return target
}

func secretTarget(resourceVersion, key string) *v1alpha1.Target {
	target := inlineTarget(resourceVersion, "")
	target.Spec.SecretRef = &v1alpha1.LocalSecretReference{Name: "my-secret", Key: key}
	return target
}

func newSecret(resourceVersion string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: meta("my-secret", resourceVersion), Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// kubeconfig returns a kubeconfig whose only user has these lines.
func kubeconfig(userLines ...string) string {
	return strings.Replace(`apiVersion: v1
kind: Config
current-context: prod
contexts:
- name: prod
  context: {cluster: c, user: admin, namespace: apps}
clusters:
- name: c
  cluster:
    server: https://example.org
    certificate-authority-data: Y2E=
users:
- name: admin
  user:
USER
`, "USER", "    "+strings.Join(userLines, "\n    "), 1)
}

// sound is a kubeconfig that passes, and rebuilt what becomes of it.
var sound = kubeconfig("token: t0ps3cret")

const rebuilt = `{"kind":"Config","apiVersion":"v1",` +
	`"clusters":[{"name":"c","cluster":{"server":"https://example.org","certificate-authority-data":"Y2E="}}],` +
	`"users":[{"name":"admin","user":{"token":"t0ps3cret"}}],` +
	`"contexts":[{"name":"prod","context":{"cluster":"c","user":"admin","namespace":"apps"}}],"current-context":"prod"}`

func marshal(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// authority returns the certificate of an authority, in PEM.
var authority = sync.OnceValue(func() []byte {
	certificate, _, err := cert.GenerateSelfSignedCertKey("ca", nil, nil)
	if err != nil {
		panic(err) //nolint:forbidigo // there is no test yet that could fail
	}
	return certificate
})
