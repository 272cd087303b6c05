package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	keeperType   = "test.pergola.dev/keeper"
	keeperConfig = `{"apiVersion":"test.pergola.dev/v1","kind":"Keeper"%s}`
)

// grant makes a ServiceAccount that may do anything with ConfigMaps of its namespace, and returns the namespace and
// the configuration that grants it to the plugin keeper.
func grant(t *testing.T) (namespace, config string) {
	t.Helper()
	namespace = newNamespace(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "keeper"}
	create(t, &corev1.ServiceAccount{ObjectMeta: meta})
	create(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
	}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "keeper"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "keeper"}},
	})
	if err := controlPlane.AllowTokenOf(t.Context(), namespace, "keeper"); err != nil {
		t.Fatal(err)
	}
	const plugins = "plugins: {keeper: {hostCluster: {serviceAccount: {namespace: %s, name: keeper}}}}\n"
	return namespace, fmt.Sprintf(plugins, namespace)
}

func newKeeperItem(namespace, name string, fields ...string) *v1alpha1.DeployItem {
	return newItem(namespace, name, keeperType, fmt.Sprintf(keeperConfig, strings.Join(fields, "")))
}

// TestHostCluster: a plugin is in the host cluster the ServiceAccount that it was granted, and gets the credentials
// that an item names. What it keeps there for items and jobs that have ended without it is collected, and nothing
// else.
func TestHostCluster(t *testing.T) {
	pods, plugins := grant(t)
	host := startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "keeper"), Config: writeConfig(t, anyConfig+plugins),
	})
	namespace := newNamespace(t)
	const dockerConfig = `{"auths":{"r.example.org":{"auth":"bWU6c2VjcmV0"}}}`
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(dockerConfig)},
	})
	system := &corev1.Namespace{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	gone := carryOut(t, newKeeperItem(namespace, "gone", `,"secret":"pull"`), succeeded)
	want := map[string]any{
		"granted": true, "user": "system:serviceaccount:" + pods + ":keeper", "namespace": pods,
		"installation": string(system.UID), "credentials": dockerConfig, "problem": "",
	}
	if diff := cmp.Diff(want, exports(t, gone)); diff != "" {
		t.Errorf("what the plugin is in the host cluster (-want +got):\n%s", diff)
	}
	late := newKeeperItem(namespace, "late", `,"wait":true`)
	late.Spec.Timeout = "2s"
	late = carryOut(t, late, failed)

	forceAway(t, gone)
	waitCollected(t, pods, "item-"+string(gone.UID))
	waitCollected(t, pods, "job-"+late.Status.JobID)
	expectConfigMap(t, pods, "item-"+string(late.UID), true)
	if strings.Contains(host.Log(), "eyJ") {
		t.Error("there is a token in the log")
	}
}

// forceAway has an item go without a deletion: somebody removes its finalizer by hand.
func forceAway(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	if len(item.Finalizers) == 0 {
		t.Fatal("the item has no finalizer: the test means nothing")
	}
	deleteObject(t, item)
	patchMetadata(t, item, map[string]any{"finalizers": nil})
	waitGone(t, item)
}

func waitCollected(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, name+" to be collected", func(ctx context.Context) (string, error) {
		err := admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "it is there", err
	})
}
