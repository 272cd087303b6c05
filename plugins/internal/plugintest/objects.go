package plugintest

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// Resource names a kind of objects as the API server does.
type Resource = schema.GroupVersionResource

// The resources of most tests.
var (
	ConfigMaps      = Resource{Version: "v1", Resource: "configmaps"}
	Secrets         = Resource{Version: "v1", Resource: "secrets"}
	Services        = Resource{Version: "v1", Resource: "services"}
	ServiceAccounts = Resource{Version: "v1", Resource: "serviceaccounts"}
	Namespaces      = Resource{Version: "v1", Resource: "namespaces"}
	Deployments     = Resource{Group: "apps", Version: "v1", Resource: "deployments"}
	Jobs            = Resource{Group: "batch", Version: "v1", Resource: "jobs"}
	ClusterRoles    = Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	CRDs            = Resource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	APIServices     = Resource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	Webhooks        = Resource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations",
	}
)

var clusterScoped = []Resource{Namespaces, ClusterRoles, CRDs, APIServices, Webhooks}

// anotherClient is the field manager of changes by a test behind the deployer's back.
const anotherClient = "another-client"

// Objects are those of a resource in the namespace, or in the cluster if they are cluster-scoped.
func (w *World) Objects(resource Resource) dynamic.ResourceInterface {
	if slices.Contains(clusterScoped, resource) {
		return w.Admin.Resource(resource)
	}
	return w.Admin.Resource(resource).Namespace(w.Namespace)
}

// Get returns an object; nil if there is none.
func (w *World) Get(resource Resource, name string) *unstructured.Unstructured {
	w.Helper()
	o, err := w.Objects(resource).Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.Fatalf("get %s %s: %v", resource.Resource, name, err)
	}
	return o
}

// MustGet returns an object and fails without it.
func (w *World) MustGet(resource Resource, name string) *unstructured.Unstructured {
	w.Helper()
	o := w.Get(resource, name)
	if o == nil {
		w.Fatalf("there is no %s %s", resource.Resource, name)
	}
	return o
}

// Names returns the sorted names of all objects of a label selector, without the objects the API server puts into
// each namespace.
func (w *World) Names(resource Resource, selector string) []string {
	w.Helper()
	list, err := w.Objects(resource).List(w.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		w.Fatalf("list %s: %v", resource.Resource, err)
	}
	var names []string
	for _, o := range list.Items {
		if o.GetName() != "kube-root-ca.crt" {
			names = append(names, o.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// Create creates an object behind the deployer's back. A cluster-scoped one goes with the test, unless it is a
// namespace.
func (w *World) Create(resource Resource, o map[string]any) *unstructured.Unstructured {
	w.Helper()
	created, err := w.Objects(resource).Create(w.Context(), &unstructured.Unstructured{Object: o},
		metav1.CreateOptions{FieldManager: anotherClient})
	if err != nil {
		w.Fatalf("create %s: %v", resource.Resource, err)
	}
	if resource != Namespaces && slices.Contains(clusterScoped, resource) {
		w.DeleteAfter(resource, created.GetName())
	}
	return created
}

// Patch changes an object behind the deployer's back.
func (w *World) Patch(resource Resource, name, patch string, subresources ...string) {
	w.Helper()
	_, err := w.Objects(resource).Patch(w.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: anotherClient}, subresources...)
	if err != nil {
		w.Fatalf("patch %s %s: %v", resource.Resource, name, err)
	}
}

// Delete asks to delete an object behind the deployer's back.
func (w *World) Delete(resource Resource, name string) {
	w.Helper()
	if err := w.Objects(resource).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatalf("delete %s %s: %v", resource.Resource, name, err)
	}
}

// Ready gives a Deployment the status of a ready one.
func (w *World) Ready(name string) {
	w.Helper()
	generation := w.MustGet(Deployments, name).GetGeneration()
	w.Patch(Deployments, name, fmt.Sprintf(`{"status":{"observedGeneration":%d,
		"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[
		{"type":"Available","status":"True"},
		{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`, generation), "status")
}

// WebhookConfiguration returns the configuration of a webhook for an operation on objects of a resource of the
// namespace, served by a Service of the namespace.
func (w *World) WebhookConfiguration(name, service, operation string, about Resource) map[string]any {
	return map[string]any{
		"apiVersion": Webhooks.GroupVersion().String(), "kind": "ValidatingWebhookConfiguration",
		"metadata": map[string]any{"name": name},
		"webhooks": []any{map[string]any{
			"name": name + ".example.org", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None",
			"timeoutSeconds":    int64(1),
			"clientConfig":      map[string]any{"service": map[string]any{"namespace": w.Namespace, "name": service}},
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": w.Namespace}},
			"rules": []any{map[string]any{
				"apiGroups": []any{about.Group}, "apiVersions": []any{about.Version}, "operations": []any{operation},
				"resources": []any{about.Resource},
			}},
		}},
	}
}

// Fields reads YAML as the API server reads objects.
func Fields(document string) map[string]any {
	var fields map[string]any
	utilruntime.Must(yaml.Unmarshal([]byte(document), &fields))
	return fields
}

// Object is Fields for a whole object.
func Object(document string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: Fields(document)}
}

// ConfigMap is one with data in the namespace.
func (w *World) ConfigMap(name string, data map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": w.Namespace}, "data": data,
	}
}

// Deployment is one in the namespace, with requests of its container in another spelling than the API server's.
func (w *World) Deployment(name string, replicas int64) map[string]any {
	labels := func() map[string]any { return map[string]any{"app": name} }
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": name, "namespace": w.Namespace},
		"spec": map[string]any{
			"replicas": replicas, "selector": map[string]any{"matchLabels": labels()},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels()},
				"spec": map[string]any{"containers": []any{map[string]any{
					"name": "main", "image": "image:1",
					"resources": map[string]any{"requests": map[string]any{"cpu": "1000m", "memory": "1024Mi"}},
				}}},
			},
		},
	}
}
