package lock

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// requestTimeout bounds each request.
const requestTimeout = 10 * time.Second

// objects is as much of a client.Client as is needed.
type objects interface {
	Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error
	Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error
	Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error
}

// store reads and writes SyncObjects in the name of one process. Each write is conditional on what is known of the object.
type store struct {
	api                      objects
	clock                    clock.PassiveClock
	prefix, podName, process string
}

// take makes this process the holder.
func (s store) take(ctx context.Context, key Key, known record) (*v1alpha1.SyncObject, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	name := objectName(s.prefix, key)
	object := &v1alpha1.SyncObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Annotations: map[string]string{AnnotationProcess: s.process}},
		Spec: v1alpha1.SyncObjectSpec{
			PodName: s.podName, Kind: kindDeployItem, Name: key.Item.Name, Prefix: s.prefix + key.Plugin, LastUpdateTime: s.now(),
		},
	}
	if known.version == "" {
		return object, s.api.Create(ctx, object)
	}
	return s.patch(ctx, name, known, s.podName, map[string]any{AnnotationProcess: s.process, AnnotationSettled: nil})
}

// release leaves the lock without a holder. The error is ErrLost if it has another one.
func (s store) release(ctx context.Context, key Key, known record, settled string) (*v1alpha1.SyncObject, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	name := objectName(s.prefix, key)
	annotations := map[string]any{AnnotationProcess: nil, AnnotationSettled: nil}
	if settled != "" {
		annotations[AnnotationSettled] = settled
	}
	object, err := s.patch(ctx, name, known, "", annotations)
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return object, err
	}
	// Somebody has taken it, or has only written to it.
	now, err := s.get(ctx, name)
	if err != nil {
		return nil, err
	}
	if now == nil || now.Spec.PodName != s.podName || now.Annotations[AnnotationProcess] != s.process {
		return nil, ErrLost
	}
	return s.patch(ctx, name, recordOf(key, now), "", annotations)
}

// patch changes the holder and the annotations, and leaves everything else as it is.
func (s store) patch(
	ctx context.Context, name types.NamespacedName, known record, podName string, annotations map[string]any,
) (*v1alpha1.SyncObject, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": known.uid, "resourceVersion": known.version, "annotations": annotations},
		"spec":     map[string]any{"podName": podName, "lastUpdateTime": s.now()},
	})
	if err != nil {
		return nil, fmt.Errorf("marshal lock: %w", err)
	}
	object := &v1alpha1.SyncObject{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	if err := s.api.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, err
	}
	return object, nil
}

// get reads a SyncObject; nil without an error if there is none.
func (s store) get(ctx context.Context, name types.NamespacedName) (*v1alpha1.SyncObject, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	object := &v1alpha1.SyncObject{}
	err := s.api.Get(ctx, name, object)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no object is an ordinary case and no error
	}
	return object, err
}

func (s store) now() v1alpha1.Time { return v1alpha1.NewTime(s.clock.Now()) }
