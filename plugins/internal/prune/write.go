package prune

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// writer sends requests about the very objects read: any other object of their names is refused with a conflict.
type writer struct {
	objects dynamic.ResourceInterface
}

// patch changes an object by a JSON merge patch; the patch's metadata, if any, are a map.
func (w writer) patch(ctx context.Context, o metav1.Object, change map[string]any) (*unstructured.Unstructured, error) {
	ofThis := map[string]any{"metadata": map[string]any{"uid": string(o.GetUID())}}
	document, err := json.Marshal(compose(change, ofThis))
	if err != nil {
		return nil, fmt.Errorf("write the patch: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: owner.FieldManager}
	return w.objects.Patch(ctx, o.GetName(), types.MergePatchType, document, options)
}

func (w writer) removeFinalizers(ctx context.Context, o metav1.Object) error {
	_, err := w.patch(ctx, o, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	return err
}
