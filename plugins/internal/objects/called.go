package objects

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// Called returns the Services that the API server calls because of an object.
func Called(o *unstructured.Unstructured) []object.Key {
	var references []map[string]any
	switch gvk := o.GroupVersionKind(); {
	case object.Intercepts(gvk.Group, gvk.Kind):
		for _, webhook := range object.Maps(o.Object, "webhooks") {
			references = append(references, object.Child(webhook, "clientConfig", "service"))
		}
	case object.IsAPIService(gvk.Group, gvk.Kind):
		references = append(references, object.Child(o.Object, "spec", "service"))
	case object.IsCRD(gvk.Group, gvk.Kind):
		conversion := object.Child(o.Object, "spec", "conversion")
		if conversion["strategy"] == "Webhook" {
			references = append(references, object.Child(conversion, "webhook", "clientConfig", "service"))
		}
	}
	var services []object.Key
	for _, r := range references {
		namespace, _ := r["namespace"].(string)
		if name, _ := r["name"].(string); name != "" {
			services = append(services, object.Key{Kind: "Service", Namespace: namespace, Name: name})
		}
	}
	return services
}
