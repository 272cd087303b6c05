package job

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// spares tells whether an item need not be read: it has not changed since it was seen to be at rest, or to be of a type that no
// plugin serves and to say so; or it is a matter of another replica, in which case there will be another look when that
// is not so any more. The cache
// may lag behind, but what it does not show yet it is going to tell; see lookAfter.
func (s *setter) spares(ctx context.Context, key types.NamespacedName) (bool, error) {
	meta, found, err := s.cached(ctx, key)
	if err != nil || !found {
		return false, err
	}
	if itemType, typed := responsibility.TypeOf(meta); typed && !s.options.elected(itemType) {
		s.memory.drop(key)
		return true, nil
	}
	j, ok := s.memory.recall(meta)
	if !ok || j.atRest || s.serves(j.itemType) {
		return ok && j.atRest, nil
	}
	return j.unserved != "" || s.options.unserved(j.itemType) == "", nil
}

// judge remembers what was seen of an item, unless it is gone by now: its deletion may have been heard of before.
func (s *setter) judge(ctx context.Context, item *v1alpha1.DeployItem) error {
	key := client.ObjectKeyFromObject(item)
	s.memory.judge(item, atRest(item, s.options, s.clock.Now()))
	_, found, err := s.cached(ctx, key)
	if err == nil && !found {
		s.memory.forget(key)
	}
	return err
}

// cached returns the metadata of an item as the cache has it, not to be changed, and whether it has any.
func (s *setter) cached(ctx context.Context, key types.NamespacedName) (meta *metav1.PartialObjectMetadata, found bool, err error) {
	meta = s.newMetadata()
	err = s.cache.Get(ctx, key, meta, client.UnsafeDisableDeepCopy)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, false, fmt.Errorf("read deploy item from the cache: %w", err)
	}
	return meta, err == nil, nil
}

// atRest tells whether an item needs nothing at any time as long as it stays as it is, were its type served or not.
func atRest(item *v1alpha1.DeployItem, o Options, now time.Time) bool {
	return annotated(item) && item.Annotations[v1alpha1.OperationAnnotation] == "" && contract.Unserved(item) == "" &&
		decide(item, known{}, o, now) == verdict{need: needNothing}
}

// annotated tells whether the annotations are up to date in which an item repeats what a deployer must know of it.
func annotated(item *v1alpha1.DeployItem) bool {
	for key, value := range responsibility.Annotations(item) {
		if item.Annotations[key] != value {
			return false
		}
	}
	return true
}
