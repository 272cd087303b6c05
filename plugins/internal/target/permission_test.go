package target

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestPermission: a request that may change something asks first, and is not sent if that fails; one that reads does not
// ask.
// Rule (plugin-authors.md#options): A request to a target waits for the pick-up if it may change something.
func TestPermission(t *testing.T) {
	t.Parallel()
	server := &apiServer{}
	client := newTestClient(t, server)
	objects := client.Objects(Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}, "")
	refusal, asked := errors.New("not picked up"), 0
	ctx := WithPermission(t.Context(), func(context.Context) error {
		asked++
		return refusal
	})
	_, err := objects.Get(ctx, "a", metav1.GetOptions{})
	if asked != 0 || errors.Is(err, refusal) {
		t.Errorf("a read: asked %d times, found %v", asked, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"},
	}}
	writes := map[string]func() error{
		http.MethodPost: func() error {
			_, err := objects.Create(ctx, object, metav1.CreateOptions{})
			return err
		},
		http.MethodPut: func() error {
			_, err := objects.Update(ctx, object, metav1.UpdateOptions{})
			return err
		},
		http.MethodDelete: func() error { return objects.Delete(ctx, "a", metav1.DeleteOptions{}) },
	}
	for method, write := range writes {
		asked = 0
		err := Explain(client.Host, write())
		if asked != 1 || !errors.Is(err, refusal) || strings.Contains(err.Error(), client.Host) {
			t.Errorf("%s: asked %d times, found %v", method, asked, err)
		}
	}
}
