package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
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

// grant makes a ServiceAccount that may do anything with ConfigMaps of its namespace, and returns the namespace and the configuration that
// grants it to the plugin keeper.
func grant(t *testing.T) (namespace, config string) {
	t.Helper()
	namespace = newNamespace(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "keeper"}
	create(t, &corev1.ServiceAccount{ObjectMeta: meta})
	create(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}}}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "keeper"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "keeper"}},
	})
	allowTokenOf(t, namespace, "keeper")
	return namespace, fmt.Sprintf("plugins: {keeper: {hostCluster: {serviceAccount: {namespace: %s, name: keeper}}}}", namespace)
}

// allowTokenOf lets hosts get tokens for a ServiceAccount, which need not be there.
func allowTokenOf(t *testing.T, namespace, account string) {
	t.Helper()
	if err := controlPlane.AllowTokenOf(t.Context(), namespace, account); err != nil {
		t.Fatal(err)
	}
}

func newKeeperItem(namespace, name string, fields ...string) *v1alpha1.DeployItem {
	return newItem(namespace, name, keeperType, fmt.Sprintf(keeperConfig, strings.Join(fields, "")))
}

// exportsOf are the exports of an item.
func exportsOf(t *testing.T, item *v1alpha1.DeployItem) map[string]any {
	t.Helper()
	secret := &corev1.Secret{}
	if err := admin.Get(t.Context(), types.NamespacedName{Namespace: item.Namespace, Name: item.Name + "-export"}, secret); err != nil {
		t.Fatal(err)
	}
	var exports map[string]any
	if err := json.Unmarshal(secret.Data["config"], &exports); err != nil {
		t.Fatal(err)
	}
	return exports
}

// kept tells whether the keeper has something in a namespace.
func kept(t *testing.T, namespace, name string) bool {
	t.Helper()
	err := admin.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func waitCollected(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, name+" to be collected", func(context.Context) (string, error) {
		if kept(t, namespace, name) {
			return "it is there", nil
		}
		return "", nil
	})
}

// forceAway has an item go without a deletion: somebody removes its finalizer by hand.
func forceAway(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	fresh := read(t, item)
	if len(fresh.Finalizers) == 0 {
		t.Fatal("the item has no finalizer: the test means nothing")
	}
	if err := admin.Delete(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	if err := admin.Patch(t.Context(), fresh, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	waitItemGone(t, item)
}

// TestHostCluster: a plugin that asks for access to the host cluster is the ServiceAccount there that it was granted; without a grant it is
// nobody, and works.
func TestHostCluster(t *testing.T) {
	namespace := newNamespace(t)
	t.Run("granted", func(t *testing.T) {
		pods, plugins := grant(t)
		host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "keeper"), Config: writeConfig(t, anyConfig+"\n"+plugins+"\n")})
		system := &corev1.Namespace{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
			t.Fatal(err)
		}
		item := carryOut(t, newKeeperItem(namespace, "granted"), v1alpha1.DeployItemPhaseSucceeded)
		want := map[string]any{
			"granted": true, "user": "system:serviceaccount:" + pods + ":keeper", "namespace": pods, "installation": string(system.UID),
		}
		if diff := cmp.Diff(want, exportsOf(t, item)); diff != "" {
			t.Errorf("what the plugin is in the host cluster (-want +got):\n%s", diff)
		}
		if strings.Contains(host.Log(), "eyJ") {
			t.Error("there is a token in the log")
		}
	})
	t.Run("not granted", func(t *testing.T) {
		startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "keeper")})
		item := carryOut(t, newKeeperItem(namespace, "not-granted"), v1alpha1.DeployItemPhaseSucceeded)
		if diff := cmp.Diff(map[string]any{"granted": false}, exportsOf(t, item)); diff != "" {
			t.Errorf("what the plugin is in the host cluster (-want +got):\n%s", diff)
		}
	})
	t.Run("of nobody", func(t *testing.T) {
		pods := newNamespace(t)
		allowTokenOf(t, pods, "keeper")
		startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "keeper"), Config: writeConfig(t, anyConfig+
			"\nplugins: {keeper: {hostCluster: {serviceAccount: {namespace: "+pods+", name: keeper}}}}\n")})
		item := newKeeperItem(namespace, "of-nobody")
		create(t, item)
		jobID := setJob(t, item)
		waitLastError(t, item, `there is no ServiceAccount "`+pods+`/keeper"`)
		create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pods, Name: "keeper"}})
		create(t, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: pods},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: pods, Name: "keeper"}},
		})
		if item = waitFinished(t, item, jobID); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
			t.Errorf("expected the job to go on once the ServiceAccount is there, but found %s", describe(item))
		}
	})
}

// TestResolveRegistryCredentials: a plugin gets the credentials of a Secret that its item names.
func TestResolveRegistryCredentials(t *testing.T) {
	namespace := newNamespace(t)
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "keeper")})
	config := `{"auths":{"r.example.org":{"auth":"bWU6c2VjcmV0"}}}`
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)},
	})
	for secret, want := range map[string]map[string]any{
		"pull": {"granted": false, "credentials": config, "problem": ""},
		"gone": {"granted": false, "credentials": "", "problem": `there is no Secret "` + namespace + `/gone"; create it, or remove the entry`},
	} {
		item := carryOut(t, newKeeperItem(namespace, "with-"+secret, `,"secret":"`+secret+`"`), v1alpha1.DeployItemPhaseSucceeded)
		if diff := cmp.Diff(want, exportsOf(t, item)); diff != "" {
			t.Errorf("Secret %s (-want +got):\n%s", secret, diff)
		}
	}
}

// TestCollect: what is left of items that have gone without a deletion goes within seconds, by one replica; that of others stays.
func TestCollect(t *testing.T) {
	pods, plugins := grant(t)
	f := newFleet(t, plugins)
	f.options.PluginDir = pluginDir(t, "keeper")
	namespace := newNamespace(t)
	// Left from before a host was there.
	before := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: pods, Name: "item-" + uuid.NewString()}}
	replicas := f.start(2)
	keep := func(name string) *v1alpha1.DeployItem {
		item := carryOut(t, newKeeperItem(namespace, name), v1alpha1.DeployItemPhaseSucceeded)
		if !kept(t, pods, "item-"+string(item.UID)) {
			t.Fatalf("nothing is kept for item %s: the test means nothing", name)
		}
		return item
	}
	stays, first, second := keep("stays"), keep("first"), keep("second")
	model := &corev1.ConfigMap{}
	if err := admin.Get(t.Context(), types.NamespacedName{Namespace: pods, Name: "item-" + string(stays.UID)}, model); err != nil {
		t.Fatal(err)
	}
	before.Labels, before.Annotations = model.Labels, model.Annotations
	before.Annotations["test.pergola.dev/uid"] = strings.TrimPrefix(before.Name, "item-") // an item of the same name that was there before
	create(t, before)

	forceAway(t, first)
	waitCollected(t, pods, "item-"+string(first.UID))
	waitCollected(t, pods, before.Name)
	collectors := collectedBy(t, f, replicas, first)
	if len(collectors) != 1 {
		t.Fatalf("expected one replica to collect what is left of the item, but it was %d", len(collectors))
	}

	// Another one does it when that is gone.
	f.stop(collectors[0])
	forceAway(t, second)
	waitCollected(t, pods, "item-"+string(second.UID))
	if others := collectedBy(t, f, f.live, second); len(others) != 1 || others[0] == collectors[0] {
		t.Errorf("expected the other replica to collect what is left of the item")
	}
	if !kept(t, pods, "item-"+string(stays.UID)) {
		t.Error("what is kept for an item that is there was collected")
	}
}

// collectedBy are those of the replicas whose plugin has collected what is left of an item.
func collectedBy(t *testing.T, f *fleet, replicas []*testenv.Replica, item *v1alpha1.DeployItem) (collectors []*testenv.Replica) {
	t.Helper()
	eventually(t, "the log to say who has collected", func(context.Context) (string, error) {
		collectors = nil
		for _, r := range replicas {
			if collected(r.Log(), string(item.UID)) {
				collectors = append(collectors, r)
			}
		}
		if len(collectors) == 0 {
			return fmt.Sprintf("nobody of %d in %s", len(replicas), f.namespace), nil
		}
		return "", nil
	})
	return collectors
}

// collected tells whether the plugin says in a log that it has collected what is left of an item or of a job.
func collected(log, id string) bool {
	return slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, `"msg":"collected"`) && strings.Contains(line, id)
	})
}

// TestCollectAfterAJob: what was kept for a job that has ended without the plugin goes, and what is kept for its item, or for a job that is
// under way, stays.
func TestCollectAfterAJob(t *testing.T) {
	pods, plugins := grant(t)
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "keeper"), Config: writeConfig(t, anyConfig+"\n"+plugins+"\n")})
	namespace := newNamespace(t)
	begin := func(name string, timeout v1alpha1.Duration) (item *v1alpha1.DeployItem, jobID string) {
		item = newKeeperItem(namespace, name, `,"wait":true`)
		item.Spec.Timeout = timeout
		create(t, item)
		jobID = setJob(t, item)
		waitFor(t, item, "under way", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing })
		return item, jobID
	}
	underWay, job := begin("under-way", "none")
	late, lateJob := begin("late", "5s")
	if !kept(t, pods, "job-"+job) || !kept(t, pods, "item-"+string(underWay.UID)) {
		t.Fatal("nothing is kept: the test means nothing")
	}
	if item := waitFinished(t, late, lateJob); item.Status.Phase != v1alpha1.DeployItemPhaseFailed {
		t.Fatalf("expected the job to run out of time, but found %s", describe(item))
	}
	waitCollected(t, pods, "job-"+lateJob)
	eventually(t, "the plugin to say so", func(context.Context) (string, error) {
		if !collected(host.Log(), lateJob) {
			return "it has collected nothing of the job", nil
		}
		return "", nil
	})
	for _, name := range []string{"item-" + string(late.UID), "item-" + string(underWay.UID), "job-" + job} {
		if !kept(t, pods, name) {
			t.Errorf("%s was collected", name)
		}
	}
}
