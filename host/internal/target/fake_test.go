package target

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fakeReader is a client.Reader made of functions.
type fakeReader struct {
	get  func(ctx context.Context, key client.ObjectKey, object client.Object) error
	list func(ctx context.Context, list client.ObjectList) error
}

var _ client.Reader = (*fakeReader)(nil)

func (f *fakeReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	return f.get(ctx, key, object)
}

func (f *fakeReader) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	return f.list(ctx, list)
}

// store holds objects by kind and name and counts how often it was asked. As a cache it refuses to hand out secret
// data.
type store struct {
	metadataOnly bool
	err          error

	mu       sync.Mutex
	objects  map[string]client.Object
	requests atomic.Int64
}

func newStore(objects ...client.Object) *store {
	s := &store{objects: map[string]client.Object{}}
	for _, object := range objects {
		s.put(object)
	}
	return s
}

// newCache returns a store that is like informers: it has the metadata of secrets only.
func newCache(objects ...client.Object) *store {
	s := newStore(objects...)
	s.metadataOnly = true
	return s
}

func (s *store) put(object client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[keyOf(object, client.ObjectKeyFromObject(object))] = object
}

func (s *store) reader() *fakeReader { return &fakeReader{get: s.get} }

func (s *store) get(_ context.Context, name client.ObjectKey, object client.Object) error {
	s.requests.Add(1)
	if s.err != nil {
		return s.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.objects[keyOf(object, name)]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kindOfObject(object)}, name.Name)
	}
	switch into := object.(type) {
	case *v1alpha1.Target:
		found.(*v1alpha1.Target).DeepCopyInto(into)
	case *v1alpha1.Context:
		found.(*v1alpha1.Context).DeepCopyInto(into)
	case *metav1.PartialObjectMetadata:
		if into.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Secret") {
			return fmt.Errorf("unexpected kind %s", into.GroupVersionKind())
		}
		found.(*corev1.Secret).ObjectMeta.DeepCopyInto(&into.ObjectMeta)
	case *corev1.Secret:
		if s.metadataOnly {
			return fmt.Errorf("secret %s was read from the cache", name)
		}
		found.(*corev1.Secret).DeepCopyInto(into)
	}
	return nil
}

func kindOfObject(object client.Object) string {
	if _, ok := object.(*metav1.PartialObjectMetadata); ok {
		return "*v1.Secret"
	}
	return fmt.Sprintf("%T", object)
}

func keyOf(object client.Object, name client.ObjectKey) string {
	return kindOfObject(object) + " " + name.String()
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
