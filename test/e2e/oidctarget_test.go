package e2e

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// createAccount creates a ServiceAccount that may do everything in its namespace from the start.
func createAccount(t *testing.T, namespace, name string) {
	t.Helper()
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	})
	eventually(t, "the ServiceAccount to have rights", func(ctx context.Context) (string, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + name,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "*", Group: "*", Resource: "*"},
		}}
		if err := admin.Create(ctx, review); err != nil || review.Status.Allowed {
			return "", err
		}
		return "it has none", nil
	})
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})
}

// createInlineTarget creates a Target of the cluster of the tests with its content inline.
func createInlineTarget(t *testing.T, namespace, name string, content map[string]any) {
	t.Helper()
	create(t, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.TargetSpec{
			Type:          v1alpha1.KubernetesClusterTargetType,
			Configuration: &runtime.RawExtension{Raw: marshal(t, content)},
		},
	})
}

// deployedBy are the users that have written the named ConfigMap since a mark in the audit log, without repetition.
func deployedBy(t *testing.T, mark auditMark, key client.ObjectKey) []string {
	t.Helper()
	var users []string
	for _, entry := range entriesSince(t, mark) {
		object := entry.ObjectRef
		written := slices.Contains([]string{"create", "patch", "update", "delete"}, entry.Verb)
		if written && object.Resource == "configmaps" && object.Namespace == key.Namespace && object.Name == key.Name {
			users = append(users, entry.User.Username)
		}
	}
	slices.Sort(users)
	return slices.Compact(users)
}

// TestServiceAccountTargets: an item whose Target names a ServiceAccount is deployed, and deleted, by that
// ServiceAccount.
func TestServiceAccountTargets(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	server := controlPlane.Config.Host
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	account := map[string]any{"name": "deployer"}
	for name, content := range map[string]map[string]any{
		"self": {"selfConfig": map[string]any{"serviceAccount": account}},
		"oidc": {"oidcConfig": map[string]any{
			"server": server, "caData": base64.StdEncoding.EncodeToString(controlPlane.Config.CAData),
			"serviceAccount": account, "expirationSeconds": 900,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(t)
			if err := controlPlane.AllowTokens(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			createAccount(t, namespace, "deployer")
			createInlineTarget(t, namespace, "my-target", content)
			deployed := client.ObjectKey{Namespace: namespace, Name: "deployed"}
			config := manifestConfig(configMap(namespace, deployed.Name, "x"))
			item := withTarget(newItem(namespace, "item", manifestType, config), "my-target")
			mark := markAudit(t)

			item = carryOut(t, item, succeeded)
			expectConfigMap(t, namespace, deployed.Name, true)
			deleteItem(t, item)
			expectConfigMap(t, namespace, deployed.Name, false)

			want := "system:serviceaccount:" + namespace + ":deployer"
			if users := deployedBy(t, mark, deployed); !slices.Equal(users, []string{want}) {
				t.Errorf("want the ConfigMap to be written by %s alone, but it was by %v", want, users)
			}
		})
	}
}
