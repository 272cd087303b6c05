package deployer_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// What is known to go wrong in Landscaper's deployer, as far as the tests of the single features do not show it.

var (
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	namespaceRoles  = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	roleBindings    = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
)

// readOnly returns access to the cluster for somebody who may only read the ConfigMaps of the test's namespace.
func (w *world) readOnly() *rest.Config {
	w.Helper()
	metadata := object{"name": "reader", "namespace": w.namespace}
	w.create(serviceAccounts, object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
	w.create(namespaceRoles, object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
		"rules": []any{object{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get", "list"}}},
	})
	w.create(roleBindings, object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
		"subjects": []any{object{"kind": "ServiceAccount", "name": "reader", "namespace": w.namespace}},
	})
	request := &unstructured.Unstructured{Object: object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": metadata, "spec": object{},
	}}
	answer, err := w.objects(serviceAccounts).Create(w.Context(), request, metav1.CreateOptions{}, "token")
	if err != nil {
		w.Fatalf("request a token: %v", err)
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	config := &rest.Config{Host: cluster.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: cluster.CAData}}
	reader, err := dynamic.NewForConfig(config)
	if err != nil {
		w.Fatal(err)
	}
	// The API server takes a moment to know of the role.
	err = wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := reader.Resource(configMaps).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	if err != nil {
		w.Fatalf("wait for the role to count: %v", err)
	}
	return config
}

// TestErrorsOfADeletionAreTold: Landscaper only logs them.
func TestErrorsOfADeletionAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil), w.configMap("held", nil)))
	w.mustSucceed(item)
	admin := w.target
	w.target = targetOf(t, w.readOnly())
	w.mustFail(w.delete(item), nil, "delete ConfigMap "+w.namespace+"/a", `cannot delete resource "configmaps"`)

	// While something else is on its way, the error is told beside it.
	w.hold("held")
	w.destroy(configMaps, "held")
	w.mustWaitFor(w.delete(item), "ConfigMap "+w.namespace+"/held", "example.org/hold",
		"ConfigMap "+w.namespace+"/a (cannot be deleted yet: ", `cannot delete resource "configmaps"`)
	w.release("held")
	w.target = admin
	w.mustDelete(item)
}

// TestWaysOutOfADeletion: a target that is gone does not keep its items for ever.
func TestWaysOutOfADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	for name, c := range map[string]struct {
		reason string
		call   sdktest.Call
		want   string
	}{
		"unreachable": {
			reason: "the cluster is gone", want: "cannot reach target cluster 127.0.0.1:1",
			call: sdktest.Call{DeployItem: item, Target: targetOf(t, &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "x"})},
		},
		"unauthorized": {
			reason: "the credentials are", want: "does not accept the credentials",
			call: sdktest.Call{DeployItem: item, Target: targetOf(t, anonymous())},
		},
		"none": {reason: "the Target is", want: "spec.target", call: sdktest.Call{DeployItem: item}},
	} {
		t.Run(name, func(t *testing.T) {
			w := w.in(t)
			result := w.plugin.Delete(t.Context(), c.call)
			if result.Failed == nil {
				t.Fatalf("%s: expected a failure, but found: %s", c.reason, result)
			}
			w.mustFail(result, result.Failed.Codes(), c.want, landscaper.DeleteWithoutUninstallAnnotation)
			if len(w.ledger(item)) != 1 {
				t.Errorf("%s: the object was forgotten", c.reason)
			}
		})
	}
	w.mustDelete(item)
}

// TestFailedExport: a job does not succeed without its exports.
func TestFailedExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := export("token", ".data.secret", w.namespace, "a")
	broken["fromObjectRef"] = object{"apiVersion": "v1", "kind": "Secret", "jsonPath": ".data.token"}
	item := w.item(with(config(w.configMap("a", object{"secret": "no reference"})), "exports", []any{broken}))
	w.mustFail(w.reconcile(item), nil, "Export", `export "token"`, "ConfigMap "+w.namespace+"/a at .data.secret", "found a string")
}

func TestItemWithoutConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(nil)
	item.Spec.Config = nil
	w.mustFail(w.reconcile(item), configurationProblem, "spec.config")
	w.mustDelete(item)
}
