package target

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// version identifies one state of one object. The UID tells apart an object and a later one of the same name; the name keeps
// objects apart that have no UID, as in a fake cluster.
type version struct {
	types.NamespacedName
	uid             types.UID
	resourceVersion string
}

func versionOf(object metav1.Object) version {
	return version{
		NamespacedName:  types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()},
		uid:             object.GetUID(),
		resourceVersion: object.GetResourceVersion(),
	}
}

// secrets reads secrets and remembers their data by version.
type secrets struct {
	cached, live client.Reader
	byVersion    *lru.Cache
}

// get returns the secret, which is shared and read only, in the version that the cached metadata tells of, without a request if that version is remembered.
// A secret without cached metadata is read live, as is every secret if fresh is true. An error of the readers is wrapped.
func (s *secrets) get(ctx context.Context, name types.NamespacedName, fresh bool) (*corev1.Secret, error) {
	if fresh {
		return s.read(ctx, name)
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := s.cached.Get(ctx, name, metadata)
	if apierrors.IsNotFound(err) {
		return s.read(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("get metadata of Secret %q: %w", name, err)
	}
	if known, ok := s.byVersion.Get(versionOf(metadata)); ok {
		return known.(*corev1.Secret), nil //nolint:forcetypeassert // nothing else is in there
	}
	return s.read(ctx, name)
}

func (s *secrets) read(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	object := &corev1.Secret{}
	if err := s.live.Get(ctx, name, object); err != nil {
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	version := versionOf(object)
	read := &corev1.Secret{Type: object.Type, Data: object.Data, ObjectMeta: metav1.ObjectMeta{ // the rest is not kept in memory
		Namespace: version.Namespace, Name: version.Name, UID: version.uid, ResourceVersion: version.resourceVersion,
	}}
	s.byVersion.Add(version, read)
	return read, nil
}
