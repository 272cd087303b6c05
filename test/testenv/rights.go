package testenv

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ContainerRights is the file of the documentation with what the container deployer may do, and containerAccount the
// ServiceAccount there.
const (
	ContainerRights  = "docs/container-rights.yaml"
	containerAccount = "container"
)

// GrantContainerRights creates a ServiceAccount that may do in a namespace, which is there, what the documentation
// allows the container deployer in its own, and nothing else. It returns a kubeconfig for the ServiceAccount. admin
// and config are the administrator's.
func GrantContainerRights(
	ctx context.Context, admin client.Client, config *rest.Config, namespace string,
) (kubeconfig []byte, err error) {
	objects, err := Objects(ContainerRights)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetName() != containerAccount || object.GetNamespace() == "" {
			continue
		}
		object.SetNamespace(namespace)
		if object.GetKind() == "RoleBinding" {
			subjects := []any{map[string]any{"kind": "ServiceAccount", "name": containerAccount, "namespace": namespace}}
			if err := unstructured.SetNestedSlice(object.Object, subjects, "subjects"); err != nil {
				return nil, fmt.Errorf("change RoleBinding %s: %w", object.GetName(), err)
			}
		}
		if err := admin.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("create %s %s/%s: %w", object.GetKind(), namespace, object.GetName(), err)
		}
	}
	right := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods"}
	if err := awaitRight(ctx, admin, right, "system:serviceaccount:"+namespace+":"+containerAccount); err != nil {
		return nil, err
	}
	return KubeconfigOf(ctx, admin, config, namespace, containerAccount)
}

// tokenSeconds is longer than all tests take.
const tokenSeconds = int64(24 * 60 * 60)

// KubeconfigOf returns a kubeconfig with a token of a ServiceAccount. admin and config are the administrator's.
func KubeconfigOf(
	ctx context.Context, admin client.Client, config *rest.Config, namespace, serviceAccount string,
) ([]byte, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceAccount}}
	request := &authenticationv1.TokenRequest{}
	request.Spec.ExpirationSeconds = new(tokenSeconds)
	if err := admin.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("get a token of ServiceAccount %s/%s: %w", namespace, serviceAccount, err)
	}
	user := rest.AnonymousClientConfig(config)
	user.BearerToken = request.Status.Token
	return InlineKubeconfig(user)
}
