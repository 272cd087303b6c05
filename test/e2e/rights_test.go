package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestEachRightIsUsed: a host that has the rights of the documentation and no others does all that hosts do, is
// refused nothing, and makes use of each of them. A right that it makes no use of is one too many, in the
// documentation and in the chart.
func TestEachRightIsUsed(t *testing.T) {
	// Not every API server can stream what there is with a watch. Where it cannot, clients have to list.
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	f := newFleet(t)
	f.options.PluginDir = pluginDir(t, "keeper")
	f.options.Config = writeConfig(t, anyConfig+"keepReferences: on\n"+
		fmt.Sprintf("plugins: {keeper: {hostCluster: {serviceAccount: {namespace: %s, name: keeper}}}}\n", f.namespace))
	namespace := newNamespace(t)
	createWorkForEachRight(t, f.namespace, namespace)
	item := func(name string) *v1alpha1.DeployItem { return newKeeperItem(namespace, name, `,"tell":2`) }
	plain, again := withTarget(item("plain"), "of-secret"), withTarget(item("again"), "of-account")
	lost, early := withTarget(item("lost"), "nowhere"), item("early")
	early.Spec.Context = "later"
	// An event that is repeated while nothing is written to the item is patched.
	waiting := withTarget(newKeeperItem(namespace, "waiting", `,"tell":1,"wait":true`), "of-secret")
	for _, i := range []*v1alpha1.DeployItem{plain, again, lost, early, waiting} {
		create(t, i)
	}
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ // of an earlier job
		Namespace: namespace, Name: again.Name + "-export",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "DeployItem", Name: again.Name, UID: again.UID,
		}},
	}})
	mark := markAudit(t)
	r := f.start(1)[0]

	setJob(t, waiting)
	job := setJob(t, early)
	waitLastError(t, early, early.Spec.Context)
	later := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: early.Spec.Context}}
	later.OCMConfig = &v1alpha1.LocalObjectReference{Name: "places"}
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "places"}})
	create(t, later)
	waitFinished(t, early, job)
	carryOutAgain(t, lost, failed)
	carryOutAgain(t, again, succeeded)
	carryOutAgain(t, plain, succeeded)
	deleteItem(t, plain)

	const watches = true
	eventually(t, "the host to use each right", func(context.Context) (string, error) {
		return strings.Join(f.unusedRights(mark, !watches), ", "), nil
	})
	f.stop(r) // the audit log has a watch when it has ended
	if unused := f.unusedRights(mark, watches); len(unused) > 0 {
		t.Errorf("the host makes no use of %q of %s", unused, testenv.HostRights)
	}
}

// unusedRights are those that the replicas have made no use of since a mark, but for watches, unless they are wanted.
// None may lack a right.
func (f *fleet) unusedRights(mark auditMark, watches bool) []string {
	f.t.Helper()
	used := map[string]bool{}
	for _, r := range f.requestsOf(mark) {
		used[r.Verb+" "+strings.Trim(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")] = true
		if r.ResponseStatus.Code == http.StatusForbidden {
			f.t.Errorf("the rights of %s do not suffice: %s: %s", testenv.HostRights, r, r.ResponseStatus.Message)
		}
	}
	return slices.DeleteFunc(rightsOfHosts(f.t), func(right string) bool {
		return used[right] || !watches && strings.HasPrefix(right, "watch ")
	})
}

// rightsOfHosts are all that a host has by the documentation, as "get secrets".
func rightsOfHosts(t *testing.T) (all []string) {
	t.Helper()
	roles, err := testenv.HostRoles()
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, verb+" "+resource)
				}
			}
		}
	}
	return all
}

// createWorkForEachRight creates what items refer to, and what else there is for a host to do: a Target of each kind,
// a ServiceAccount that the plugin acts as in the cluster, an HTTP hook behind a Service, the lock of an item that is
// gone, and an autoscaler.
func createWorkForEachRight(t *testing.T, pods, items string) {
	t.Helper()
	createTarget(t, items, "of-secret")
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: items, Name: "deployer"}})
	createInlineTarget(t, items, "of-account", map[string]any{
		"selfConfig": map[string]any{"serviceAccount": map[string]any{"name": "deployer"}},
	})
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pods, Name: "keeper"}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pods, Name: "keeper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: pods, Name: "keeper"}},
	})
	allowed := controlPlane.AllowTokens(t.Context(), items)
	if err := errors.Join(allowed, controlPlane.AllowTokenOf(t.Context(), pods, "keeper")); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: items, Name: "hook"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	create(t, service)
	hook := registration(items, "", preReconcileOnly, v1alpha1.DeployItemType("test.pergola.dev/"+items))
	hook.Spec.Hook.Address = v1alpha1.HookAddress{
		Ref: &v1alpha1.HookReference{APIVersion: "v1", Kind: "Service", Namespace: items, Name: service.Name},
	}
	register(t, hook)
	create(t, &v1alpha1.SyncObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: items, Name: "keeper-" + uuid.NewString()},
		Spec: v1alpha1.SyncObjectSpec{
			Prefix: "keeper", Kind: "DeployItem", Name: "gone", LastUpdateTime: v1alpha1.Now(),
		},
	})
	create(t, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: pods, Name: "host"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "host"},
			MaxReplicas:    1,
		},
	})
}

// TestNoRights: a host that may list nothing says so to those who ask, instead of letting them wait, and is alive.
func TestNoRights(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "stranger"}})
	kubeconfig, err := testenv.KubeconfigOf(t.Context(), admin, controlPlane.Config, namespace, "stranger")
	if err != nil {
		t.Fatal(err)
	}
	o := testenv.HostOptions{Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), PluginDir: pluginDir(t, "mock")}
	if err := os.WriteFile(o.Kubeconfig, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	host := startHost(t, o)
	eventually(t, "the host to say what it may not list", func(ctx context.Context) (string, error) {
		for _, want := range []string{
			"the host is starting: it has not listed all that it watches: ", "cannot list resource",
			`a ClusterRoleBinding of it to the ServiceAccount "` + namespace + `/stranger"`,
		} {
			if ready := describeError(host.Ready(ctx)); !strings.Contains(ready, want) {
				return ready, nil
			}
		}
		_, err := fetch(ctx, host.URL+"/healthz")
		return "", err
	})
}
