package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// shop is a namespace of the shared cluster, as the user of the command has it. The test is the host: it takes the steps of jobs.
type shop struct {
	t          *testing.T
	admin      client.WithWatch
	config     *rest.Config
	namespace  string
	kubeconfig string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	controlPlane := shared(t)
	admin, err := controlPlane.Client()
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, admin: admin, config: controlPlane.Config}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	s.create(namespace)
	s.namespace = namespace.Name
	s.kubeconfig = s.as("")
	return s
}

// as writes a kubeconfig of one who acts as a user, or the administrator, in the namespace of the shop.
func (s *shop) as(user string) string {
	s.t.Helper()
	cluster := &clientcmdapi.Cluster{Server: s.config.Host, CertificateAuthorityData: s.config.CAData}
	info := &clientcmdapi.AuthInfo{ClientCertificateData: s.config.CertData, ClientKeyData: s.config.KeyData, Impersonate: user}
	config := clientcmdapi.Config{
		CurrentContext: "c", Clusters: map[string]*clientcmdapi.Cluster{"c": cluster}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"c": info},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c", Namespace: s.namespace}},
	}
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// allow lets a user do something in the namespace.
func (s *shop) allow(user string, rules ...rbacv1.PolicyRule) {
	s.t.Helper()
	s.create(&rbacv1.Role{ObjectMeta: s.named(user), Rules: rules})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: s.named(user), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	})
}

func (s *shop) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.namespace}
}

func (s *shop) create(object client.Object) {
	s.t.Helper()
	if err := s.admin.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// target creates a Target that is the shared cluster itself.
func (s *shop) target(name string) {
	s.t.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.create(&corev1.Secret{ObjectMeta: s.named(name), StringData: map[string]string{"kubeconfig": string(kubeconfig)}})
	s.create(&v1alpha1.Target{ObjectMeta: s.named(name), Spec: v1alpha1.TargetSpec{
		Type: v1alpha1.KubernetesClusterTargetType, SecretRef: &v1alpha1.LocalSecretReference{Name: name, Key: "kubeconfig"},
	}})
}

// selfTarget creates a Target that is the shared cluster for a ServiceAccount of the shop, who may do what the rules say.
func (s *shop) selfTarget(name string, rules ...rbacv1.PolicyRule) {
	s.t.Helper()
	s.create(&corev1.ServiceAccount{ObjectMeta: s.named(name)})
	s.create(&rbacv1.Role{ObjectMeta: s.named(name), Rules: rules})
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: s.named(name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: name}},
	})
	s.create(&v1alpha1.Target{ObjectMeta: s.named(name), Spec: v1alpha1.TargetSpec{
		Type:          v1alpha1.KubernetesClusterTargetType,
		Configuration: &runtime.RawExtension{Raw: []byte(`{"selfConfig":{"serviceAccount":{"name":"` + name + `"}}}`)},
	}})
}

// on has an item of a Target.
func on(target string) itemStep {
	return func(i *v1alpha1.DeployItem) { i.Spec.Target = &v1alpha1.ObjectReference{Name: target} }
}

// keeps has a deployer keep something about an item.
func keeps(providerStatus string) itemStep {
	return func(i *v1alpha1.DeployItem) {
		i.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(providerStatus)}
	}
}

type itemStep func(*v1alpha1.DeployItem)

// item creates an item whose life has had some steps.
func (s *shop) item(name string, steps ...itemStep) *v1alpha1.DeployItem {
	s.t.Helper()
	item := &v1alpha1.DeployItem{ObjectMeta: s.named(name), Spec: v1alpha1.DeployItemSpec{
		Type: "landscaper.gardener.cloud/helm", Config: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Any","password":"t0ps3cret"}`)},
	}}
	item.Labels, item.Finalizers = map[string]string{"app": name}, []string{v1alpha1.Finalizer}
	s.create(item)
	s.t.Cleanup(func() { s.release(name) })
	s.take(name, steps...)
	return item
}

// take has an item take steps. Those of its status and those of the rest are written one after the other.
func (s *shop) take(name string, steps ...itemStep) {
	s.t.Helper()
	for {
		item := &v1alpha1.DeployItem{}
		if err := s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, item); err != nil {
			s.t.Fatal(err)
		}
		before := item.DeepCopy()
		for _, step := range steps {
			step(item)
		}
		status := item.Status
		item.Status = before.Status
		err := s.admin.Patch(s.t.Context(), item, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err == nil {
			item.Status = status
			item.Status.ObservedGeneration = min(item.Status.ObservedGeneration, item.Generation)
			err = s.admin.Status().Update(s.t.Context(), item)
		}
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "the object has been modified") {
			s.t.Fatal(err)
		}
	}
}

// release lets an item go.
func (s *shop) release(name string) {
	item := &v1alpha1.DeployItem{ObjectMeta: s.named(name)}
	ctx := context.WithoutCancel(s.t.Context())
	if err := s.admin.Patch(ctx, item, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); client.IgnoreNotFound(err) != nil {
		s.t.Error(err)
	}
	if err := s.admin.Delete(ctx, item); client.IgnoreNotFound(err) != nil {
		s.t.Error(err)
	}
}

var anyDeployer = v1alpha1.DeployerInformation{Identity: "pergola-0", Name: "helm", Version: "v1"}

// The steps of a host.
func setJob(id string) itemStep {
	return func(i *v1alpha1.DeployItem) { contract.SetJob(i, id, time.Now()) }
}

func beginJob(i *v1alpha1.DeployItem) {
	contract.Begin(i, i.DeletionTimestamp != nil, anyDeployer, time.Now())
}

func waitFor(text string) itemStep {
	return func(i *v1alpha1.DeployItem) { contract.Wait(i, text, time.Now()) }
}

func succeed(i *v1alpha1.DeployItem) { contract.Succeed(i, time.Now()) }

func failWith(message string) itemStep {
	return func(i *v1alpha1.DeployItem) {
		contract.Fail(i, i.DeletionTimestamp != nil, contract.Error{Operation: "Apply", Reason: "Broken", Message: message}, time.Now())
	}
}

// run runs a command for items and returns what it prints on both streams, and its exit code with its error.
func (s *shop) run(args ...string) (out string, code int, err error) {
	s.t.Helper()
	return s.start(args...).wait()
}

// running is a command that runs.
type running struct {
	t    *testing.T
	out  *sharedBuffer
	done chan error
	end  context.CancelFunc
}

// start runs a command for items in the background. It ends with the test.
func (s *shop) start(args ...string) *running {
	s.t.Helper()
	ctx, end := context.WithCancel(s.t.Context())
	r := &running{t: s.t, out: &sharedBuffer{}, done: make(chan error, 1), end: end}
	cmd := newCommand(ownName)
	cmd.SetArgs(append([]string{"items", args[0], "--kubeconfig", s.kubeconfig}, args[1:]...))
	cmd.SetOut(r.out)
	cmd.SetErr(r.out)
	go func() { r.done <- cmd.ExecuteContext(ctx) }()
	s.t.Cleanup(end)
	return r
}

func (r *running) wait() (out string, code int, err error) {
	r.t.Helper()
	err = <-r.done
	return r.out.String(), codeOf(err), err
}

// until blocks until the command has printed a text. It fails when the command has ended, or when a slow machine would have printed it.
func (r *running) until(text string) {
	r.t.Helper()
	tooLong := time.After(time.Minute)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !strings.Contains(r.out.String(), text) {
		select {
		case <-ticker.C:
		case <-tooLong:
			r.t.Fatalf("expected %q, but found: %s", text, r.out.String())
		case err := <-r.done:
			r.done <- err
			if !strings.Contains(r.out.String(), text) {
				r.t.Fatalf("expected %q, but the command has ended with %v and: %s", text, err, r.out.String())
			}
		}
	}
}

// sharedBuffer is a buffer that several goroutines use.
type sharedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}
