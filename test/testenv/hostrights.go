package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// HostRights is the file of the documentation with what a host may do, and the policy that holds it to less. The chart
// gives the same.
const HostRights = "docs/host-rights.yaml"

// ScopedHostRights is the file with what a host of some namespaces may do.
const ScopedHostRights = "docs/host-rights-scoped.yaml"

const (
	// hosts is the group of the users that are hosts, and host the one who is not a replica of its own name.
	hosts, host = "pergola-hosts", "pergola-host"
	// The roles of HostRights: what a host may do in all namespaces, in that of its pods, and where Targets name a
	// ServiceAccount.
	allRole, replicaRole, tokenRole = "pergola-test-host", "pergola-test-replica", "pergola-target-tokens"
)

// roleNames are the names of the roles by those that they have in HostRights.
var roleNames = map[string]string{
	"ClusterRole/pergola": allRole, "Role/pergola": replicaRole, "ClusterRole/" + tokenRole: tokenRole,
}

// HostRoles are the roles of HostRights. A role for the namespace of the host's pods is here one that may be bound in
// any.
func HostRoles() (roles []*rbacv1.ClusterRole, err error) {
	objects, err := Objects(HostRights)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		name, role := roleNames[object.GetKind()+"/"+object.GetName()], &rbacv1.ClusterRole{}
		if name == "" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			return nil, fmt.Errorf("read rights of %s: %w", HostRights, err)
		}
		roles = append(roles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: role.Rules})
	}
	return roles, nil
}

// HostKubeconfig is a file with the kubeconfig of a user who may do what a host may by HostRights, in all namespaces,
// and nothing else.
func (c *ControlPlane) HostKubeconfig(ctx context.Context) (path string, err error) {
	if err := c.allowHosts(ctx); err != nil {
		return "", err
	}
	return c.kubeconfigOf(host)
}

// kubeconfigOf makes a user who is a host, and writes the user's kubeconfig.
func (c *ControlPlane) kubeconfigOf(name string) (path string, err error) {
	return c.userKubeconfig(name, hosts)
}

// userKubeconfig makes a user in some groups, and writes the user's kubeconfig.
func (c *ControlPlane) userKubeconfig(name string, groups ...string) (path string, err error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return "", fmt.Errorf("add user %s: %w", name, err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("write kubeconfig of user %s: %w", name, err)
	}
	path = filepath.Join(filepath.Dir(c.Kubeconfig), "kubeconfig-"+name)
	return path, os.WriteFile(path, kubeconfig, 0o600)
}

// allowHosts gives hosts their rights in all namespaces, and waits until they have them. It may be called again.
func (c *ControlPlane) allowHosts(ctx context.Context) error {
	roles, err := HostRoles()
	if err != nil {
		return err
	}
	objects := []client.Object{&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: allRole}, Subjects: allHosts(), RoleRef: roleRef("ClusterRole", allRole),
	}}
	for _, role := range roles {
		objects = append(objects, role)
	}
	policy, err := hostPolicy()
	if err != nil {
		return err
	}
	objects = append(objects, policy...)
	right := authorizationv1.ResourceAttributes{Verb: "list", Group: v1alpha1.GroupName, Resource: "deployitems"}
	return c.grant(ctx, right, objects...)
}

// ScopedKubeconfig is a file with the kubeconfig of a new user with what a host of some namespaces may do by
// ScopedHostRights, and nothing else. One that does not exist is the last; no Role is there.
func (c *ControlPlane) ScopedKubeconfig(
	ctx context.Context, name string, namespaces ...string,
) (path string, err error) {
	documents, err := Objects(ScopedHostRights)
	if err != nil {
		return "", err
	}
	admin, err := c.Client()
	if err != nil {
		return "", err
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}
	meta := metav1.ObjectMeta{Name: name}
	var objects []client.Object
	for _, document := range documents {
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(document.Object, role); err != nil {
			return "", fmt.Errorf("read %s: %w", ScopedHostRights, err)
		}
		switch {
		case document.GetKind() == "ClusterRole":
			for i, rule := range role.Rules {
				if len(rule.ResourceNames) > 0 {
					role.Rules[i].ResourceNames = append([]string{metav1.NamespaceSystem}, namespaces...)
				}
			}
			objects = append(objects, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: role.Rules}, &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, Subjects: subjects, RoleRef: roleRef("ClusterRole", name),
			})
		case document.GetKind() == "Role" && document.GetNamespace() == "shop":
			for _, namespace := range namespaces[:len(namespaces)-1] {
				meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
				objects = append(objects, &rbacv1.Role{ObjectMeta: meta, Rules: role.Rules}, &rbacv1.RoleBinding{
					ObjectMeta: meta, Subjects: subjects, RoleRef: roleRef("Role", name),
				})
			}
		}
	}
	for _, o := range objects {
		if err := admin.Create(ctx, o); err != nil {
			return "", fmt.Errorf("grant host %s its rights: %w", name, err)
		}
	}
	return c.userKubeconfig(name)
}

// hostPolicy are the ValidatingAdmissionPolicy of HostRights and its binding, for hosts.
func hostPolicy() (policy []client.Object, err error) {
	objects, err := Objects(HostRights)
	for _, object := range objects {
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy":
			conditions := []any{map[string]any{"name": "host", "expression": "'" + hosts + "' in request.userInfo.groups"}}
			err = errors.Join(err, unstructured.SetNestedSlice(object.Object, conditions, "spec", "matchConditions"))
			policy = append(policy, object)
		case "ValidatingAdmissionPolicyBinding":
			policy = append(policy, object)
		}
	}
	return policy, err
}

func allHosts() []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: hosts}}
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

// AllowReplicas gives hosts the rights that they have in the namespace of their pods, and waits until they have them.
// It may be called again.
func (c *ControlPlane) AllowReplicas(ctx context.Context, namespace string) error {
	if err := c.allowHosts(ctx); err != nil {
		return err
	}
	return c.bind(ctx, replicaRole, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "list", Group: "coordination.k8s.io", Resource: "leases",
	})
}

// AllowTokens lets hosts get tokens for the ServiceAccounts of a namespace, and waits until they may. HostKubeconfig
// was called before.
func (c *ControlPlane) AllowTokens(ctx context.Context, namespace string) error {
	return c.bind(ctx, tokenRole, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: "create", Resource: "serviceaccounts", Subresource: "token",
	})
}

// AllowTokenOf lets hosts get tokens for one ServiceAccount, as for a plugin with access to the host cluster, and
// waits until they may. HostKubeconfig was called before.
func (c *ControlPlane) AllowTokenOf(ctx context.Context, namespace, account string) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account + "-token"}
	return c.grant(ctx,
		authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Resource: "serviceaccounts", Subresource: "token", Name: account,
		},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account},
			Verbs: []string{"create"},
		}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: allHosts(), RoleRef: roleRef("Role", meta.Name)})
}

// bind gives hosts the rights of a ClusterRole in a namespace, of which the last one is known.
func (c *ControlPlane) bind(ctx context.Context, role string, last authorizationv1.ResourceAttributes) error {
	return c.grant(ctx, last, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: last.Namespace, Name: role}, Subjects: allHosts(),
		RoleRef: roleRef("ClusterRole", role),
	})
}

// grant creates what is not there yet, and waits until hosts have the right.
func (c *ControlPlane) grant(
	ctx context.Context, right authorizationv1.ResourceAttributes, objects ...client.Object,
) error {
	admin, err := c.Client()
	if err != nil {
		return err
	}
	for _, o := range objects {
		err := admin.Create(ctx, o)
		// Kubernetes 1.29 has no policies.
		if err != nil && !apierrors.IsAlreadyExists(err) && !meta.IsNoMatchError(err) {
			return fmt.Errorf("grant hosts their rights: %w", err)
		}
	}
	return awaitRight(ctx, admin, right, host, hosts)
}

// awaitRight waits until a user has a right that was granted: the API server takes its time to notice.
func awaitRight(
	ctx context.Context, admin client.Client, right authorizationv1.ResourceAttributes, user string, groups ...string,
) error {
	const often, enough = 5 * time.Millisecond, time.Minute
	err := wait.PollUntilContextTimeout(ctx, often, enough, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: groups, ResourceAttributes: &right,
		}}
		err := admin.Create(ctx, review)
		return review.Status.Allowed, err
	})
	if err != nil {
		return fmt.Errorf("wait for the rights of %s: %w", user, err)
	}
	return nil
}
