package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// tour is a journey of one host through all that hosts do, with the plugin keeper.
type tour struct {
	*testing.T

	// missing is the right that the host does not have; nil if it has all.
	missing *right
	// items is the namespace of the deploy items, and pods that of the host and of what its plugin keeps.
	items, pods string

	// plain exports something that nobody has exported before; again has an old export and the Target with a ServiceAccount; lost has a
	// Target that is not there, and early a Context that comes later.
	plain, again, lost, early *v1alpha1.DeployItem
	// leftover is the lock of an item that went before the host came.
	leftover     *v1alpha1.SyncObject
	registration *v1alpha1.DeployerRegistration

	host *testenv.Replica
	log  notes
}

// notes are what a host has logged so far.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
	// added is called when there is more.
	added func()
}

// Write implements io.Writer.
func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	n.text.Write(p)
	n.mu.Unlock()
	n.added()
	return len(p), nil
}

// newTour prepares a tour and starts the host, which has all rights but the missing one.
func newTour(t *testing.T, plugins string, all []*right, missing *right) *tour {
	t.Helper()
	w := &tour{T: t, missing: missing, items: newNamespace(t), pods: newNamespace(t)}
	w.grant(all)
	w.createReferences()
	w.createItems()
	w.start(plugins)
	return w
}

// account is the ServiceAccount of the host.
const account = "host"

// grant makes the host's ServiceAccount, and waits until it has its rights.
func (w *tour) grant(all []*right) {
	w.Helper()
	create(w.T, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.pods, Name: account}})
	rules := map[string][]rbacv1.PolicyRule{}
	for _, r := range all {
		if r != w.missing {
			rules[r.place] = append(rules[r.place], r.PolicyRule)
		}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.pods, Name: account}}
	for place, rules := range rules {
		namespace := w.namespaceOf(place)
		meta := metav1.ObjectMeta{Namespace: namespace, Name: w.pods}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Name: w.pods}
		if namespace == "" {
			ref.Kind = "ClusterRole"
			create(w.T, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules})
			create(w.T, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		} else {
			ref.Kind = "Role"
			create(w.T, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
			create(w.T, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
		}
		w.waitGranted(namespace, &rules[0])
	}
}

// namespaceOf is the namespace of a place; empty for all.
func (w *tour) namespaceOf(place string) string {
	return map[string]string{ofPods: w.pods, ofItems: w.items}[place]
}

// waitGranted waits until the API server has taken notice of a rule.
func (w *tour) waitGranted(namespace string, rule *rbacv1.PolicyRule) {
	w.Helper()
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	eventually(w.T, "the host to have its rights", func(ctx context.Context) (string, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + w.pods + ":" + account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
			},
		}}
		if err := admin.Create(ctx, review); err != nil || review.Status.Allowed {
			return "", err
		}
		return "it lacks one of those " + namespace, nil
	})
}

// createReferences creates what the items refer to, and what else there is for a host to do.
func (w *tour) createReferences() {
	w.Helper()
	for namespace, name := range map[string]string{w.pods: "keeper", w.items: "deployer"} {
		create(w.T, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	create(w.T, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.pods, Name: "keeper"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.pods, Name: "keeper"}},
	})
	createTarget(w.T, w.items, "of-secret")
	createInlineTarget(w.T, w.items, "of-account", map[string]any{
		"selfConfig": map[string]any{"serviceAccount": map[string]any{"name": "deployer"}},
	})

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.items, Name: "hook"}}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	create(w.T, service)
	w.registration = registration(w.items, "", preReconcileOnly, v1alpha1.DeployItemType("test.pergola.dev/"+w.items))
	w.registration.Spec.Hook.Address = v1alpha1.HookAddress{
		Ref: &v1alpha1.HookReference{APIVersion: "v1", Kind: "Service", Namespace: w.items, Name: service.Name},
	}
	register(w.T, w.registration)

	uid := uuid.NewString()
	w.leftover = &v1alpha1.SyncObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.items, Name: "keeper-" + uid},
		Spec:       v1alpha1.SyncObjectSpec{Prefix: "keeper", Kind: "DeployItem", Name: "gone", LastUpdateTime: v1alpha1.Now()},
	}
	create(w.T, w.leftover)
	create(w.T, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.pods, Name: account},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: account}, MaxReplicas: 1,
		},
	})
}

// createItems creates the items, with a job for each. They are gone at the end of the test.
func (w *tour) createItems() {
	w.Helper()
	item := func(name string) *v1alpha1.DeployItem { return newKeeperItem(w.items, name, `,"tell":2`) }
	w.plain = withTarget(item("plain"), "of-secret")
	w.again = withTarget(item("again"), "of-account")
	w.lost = withTarget(item("lost"), "nowhere")
	w.early = item("early")
	w.early.Spec.Context = "later"
	for _, item := range w.all() {
		create(w.T, item)
		w.Cleanup(func() { w.forget(item) })
		setJob(w.T, item)
	}
	create(w.T, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.items, Name: w.again.Name + "-export",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "DeployItem", Name: w.again.Name, UID: w.again.UID,
		}},
	}})
}

func (w *tour) all() []*v1alpha1.DeployItem {
	return []*v1alpha1.DeployItem{w.plain, w.again, w.lost, w.early}
}

// forget removes an item, wherever its job is, so that no other host goes on with it.
func (w *tour) forget(item *v1alpha1.DeployItem) {
	ctx := context.WithoutCancel(w.Context())
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	for _, err := range []error{admin.Delete(ctx, item), admin.Patch(ctx, item, patch)} {
		if client.IgnoreNotFound(err) != nil {
			w.Error(err)
		}
	}
}

// start starts the host, unless it misses the missing right before. It is killed at the end of the test.
func (w *tour) start(plugins string) {
	w.Helper()
	content, err := testenv.KubeconfigOf(w.Context(), admin, controlPlane.Config, w.pods, account)
	if err != nil {
		w.Fatal(err)
	}
	kubeconfig := filepath.Join(w.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	w.log.added = func() { // some rights keep a host from its start
		if w.misses() {
			cancel()
		}
	}
	w.host, err = testenv.StartReplicaWith(ctx, admin, testenv.HostOptions{
		Binary: binaries + "/pergola", Kubeconfig: kubeconfig, PluginDir: plugins, PodNamespace: w.pods, PodName: w.pods, Log: &w.log,
		Config: writeConfig(w.T, fmt.Sprintf(anyConfig+"plugins: {keeper: {hostCluster: {serviceAccount: {namespace: %s, name: keeper}}}}\n", w.pods)),
	})
	if w.misses() && err != nil {
		return
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), patience)
		defer cancel()
		if err := w.host.Kill(ctx); err != nil {
			w.Error(err)
		}
		if strings.Contains(w.said(), "DATA RACE") || w.Failed() {
			w.Errorf("log of the host:\n%s", w.host.Log())
		}
	})
}

// said is what the host has said so far.
func (w *tour) said() string {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return strings.ReplaceAll(w.log.text.String(), `\`, "") // quotes in texts of JSON
}

// misses tells whether the host has said that it lacks the missing right.
func (w *tour) misses() bool { return w.missing != nil && strings.Contains(w.said(), w.sign()) }

// sign is what a host says that lacks the missing right: as a rule, what the API server says.
func (w *tour) sign() string {
	verb, resource, namespace := w.missing.Verbs[0], w.missing.Resources[0], w.namespaceOf(w.missing.place)
	switch {
	case verb == "get" && resource == "services":
		return fmt.Sprintf(`the host may not read the Service "%s/hook"`, w.items)
	case resource == "serviceaccounts/token" && namespace == w.items:
		return fmt.Sprintf("the host needs the right to create serviceaccounts/token in namespace %q", namespace)
	case namespace == "":
		return fmt.Sprintf("cannot %s resource %q in API group %q", verb, resource, w.missing.APIGroups[0])
	}
	return fmt.Sprintf("cannot %s resource %q in API group %q in the namespace %q", verb, resource, w.missing.APIGroups[0], namespace)
}

// take goes to the end of the tour, or until the host misses the missing right, and tells whether it does.
func (w *tour) take() (misses bool) {
	w.Helper()
	return !w.wait("a Context to be missed", w.contextMissed) ||
		!w.wait("the jobs to be finished", w.finished) ||
		!w.wait("an item and two locks to be gone", w.gone) ||
		!w.wait("the hook to be resolved", w.resolved) ||
		!w.wait("the statistics", w.measured)
}

// wait waits for a condition, and tells whether it holds; else the host misses the missing right.
func (w *tour) wait(what string, condition func(ctx context.Context) (string, error)) (holds bool) {
	w.Helper()
	eventually(w.T, what, func(ctx context.Context) (found string, err error) {
		if w.misses() {
			return "", nil
		}
		found, err = condition(ctx)
		holds = err == nil && found == ""
		return found, err
	})
	return holds
}

// contextMissed creates the Context that an item waits for.
func (w *tour) contextMissed(ctx context.Context) (string, error) {
	if err := admin.Get(ctx, client.ObjectKeyFromObject(w.early), w.early); err != nil {
		return "", err
	}
	if e := w.early.Status.LastError; e == nil || e.Reason != "ContextNotFound" {
		return describe(w.early), nil
	}
	return "", admin.Create(ctx, &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: w.items, Name: w.early.Spec.Context}})
}

// finished begins the deletion of an item once all have succeeded that can.
func (w *tour) finished(ctx context.Context) (string, error) {
	for _, item := range w.all() {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(item), item); err != nil {
			return "", err
		}
		wanted := v1alpha1.DeployItemPhaseSucceeded
		if item == w.lost {
			wanted = v1alpha1.DeployItemPhaseFailed
		}
		if item.Status.JobIDFinished != item.Status.JobID || item.Status.Phase != wanted {
			return item.Name + ": " + describe(item), nil
		}
	}
	if err := admin.Delete(ctx, w.plain); err != nil {
		return "", err
	}
	setJob(w.T, w.plain)
	return "", nil
}

// gone tells whether the deleted item is gone, and the locks of it and of another one.
func (w *tour) gone(ctx context.Context) (string, error) {
	lock := &v1alpha1.SyncObject{ObjectMeta: metav1.ObjectMeta{Namespace: w.items, Name: "keeper-" + string(w.plain.UID)}}
	for _, object := range []client.Object{w.plain, w.leftover, lock} {
		err := admin.Get(ctx, client.ObjectKeyFromObject(object), object)
		if err == nil {
			return object.GetName() + " is there", nil
		}
		if !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	return "", nil
}

func (w *tour) resolved(ctx context.Context) (string, error) {
	err := admin.Get(ctx, client.ObjectKeyFromObject(w.registration), w.registration)
	if err != nil || w.registration.Status.Hook != nil {
		return "", err
	}
	return string(marshal(w.T, w.registration.Status)), nil
}

func (w *tour) measured(context.Context) (string, error) {
	if !strings.Contains(w.said(), "HPA Statistics") {
		return "the host has logged none", nil
	}
	return "", nil
}
