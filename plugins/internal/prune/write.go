package prune

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/internal/objects"
)

func removeFinalizers(ctx context.Context, in dynamic.ResourceInterface, o metav1.Object) error {
	patch := map[string]any{"metadata": map[string]any{"finalizers": nil}}
	_, err := objects.Patch(ctx, in, o, types.MergePatchType, patch)
	return err
}
