package items

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

var (
	controlPlane testenv.OnDemand
	pergola      = commandtest.Of(NewCommand)
)

// The test binary is also the plugins of these tests.
func TestMain(m *testing.M) { commandtest.Main(m, testPlugins(), controlPlane.RunTests) }

// shop is a namespace of the shared cluster, as the user of the command has it. The test is the host: it takes the
// steps of jobs.
type shop struct {
	t          *testing.T
	admin      client.WithWatch
	config     *rest.Config
	namespace  string
	kubeconfig string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	plane, admin := controlPlane.ForTest(t)
	s := &shop{t: t, admin: admin, config: plane.Config}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	s.create(namespace)
	s.namespace = namespace.Name
	s.kubeconfig = s.as("")
	return s
}

// as writes a kubeconfig of one who acts as a user, or the administrator, in the namespace of the shop, or that of its
// other context.
func (s *shop) as(user string) string {
	s.t.Helper()
	text, err := testenv.InlineKubeconfig(s.config)
	s.check(err)
	config, err := clientcmd.Load(text)
	s.check(err)
	config.AuthInfos["user"].Impersonate = user
	config.Contexts["context"].Namespace = s.namespace
	config.Contexts["other"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "user", Namespace: "elsewhere"}
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	s.check(clientcmd.WriteToFile(*config, path))
	return path
}

func (s *shop) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// allow lets a user get things in the namespace, such as "deployitems.landscaper.gardener.cloud".
func (s *shop) allow(user string, resources ...string) {
	s.t.Helper()
	s.allowTo("get", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}, resources...)
}

func (s *shop) allowTo(verb string, who rbacv1.Subject, resources ...string) {
	s.t.Helper()
	role := &rbacv1.Role{ObjectMeta: s.named(who.Name)}
	for _, resource := range resources {
		name, group, _ := strings.Cut(resource, ".")
		rule := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{name}}
		role.Rules = append(role.Rules, rule)
	}
	s.create(role)
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: s.named(who.Name), Subjects: []rbacv1.Subject{who},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: who.Name},
	})
}

func (s *shop) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.namespace}
}

func (s *shop) create(object client.Object) {
	s.t.Helper()
	s.check(s.admin.Create(s.t.Context(), object))
}

// target creates a Target that is the shared cluster itself.
func (s *shop) target(name string) {
	s.t.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(s.config)
	s.check(err)
	s.create(&corev1.Secret{ObjectMeta: s.named(name), StringData: map[string]string{"kubeconfig": string(kubeconfig)}})
	s.create(&v1alpha1.Target{ObjectMeta: s.named(name), Spec: v1alpha1.TargetSpec{
		Type: v1alpha1.KubernetesClusterTargetType, SecretRef: &v1alpha1.LocalSecretReference{Name: name, Key: "kubeconfig"},
	}})
}

// selfTarget creates a Target that is the shared cluster for the account that this configuration names.
func (s *shop) selfTarget(name, configuration string) {
	s.t.Helper()
	s.create(&v1alpha1.Target{ObjectMeta: s.named(name), Spec: v1alpha1.TargetSpec{
		Type:          v1alpha1.KubernetesClusterTargetType,
		Configuration: &runtime.RawExtension{Raw: []byte(`{"selfConfig":` + configuration + `}`)},
	}})
}

type itemStep func(*v1alpha1.DeployItem)

// item creates an item whose life has had some steps, the first of which make it what it is.
func (s *shop) item(name string, steps ...itemStep) *v1alpha1.DeployItem {
	s.t.Helper()
	item := &v1alpha1.DeployItem{ObjectMeta: s.named(name), Spec: v1alpha1.DeployItemSpec{
		Type:   "landscaper.gardener.cloud/helm",
		Config: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Any","password":"t0ps3cret"}`)},
	}}
	item.Labels, item.Generation = map[string]string{"app": name}, 1
	for _, step := range steps {
		step(item)
	}
	status := item.Status
	s.create(item)
	s.t.Cleanup(func() { s.remove(name) })
	item.Status = status
	s.check(s.admin.Status().Update(s.t.Context(), item))
	return item
}

// take has an item take further steps.
func (s *shop) take(name string, steps ...itemStep) {
	s.t.Helper()
	item, status := &v1alpha1.DeployItem{ObjectMeta: s.named(name)}, v1alpha1.DeployItemStatus{}
	s.check(testenv.Change(s.t.Context(), s.admin, item, func() {
		for _, step := range steps {
			step(item)
		}
		status = item.Status
	}))
	item.Status = status
	s.check(s.admin.Status().Update(s.t.Context(), item))
}

func (s *shop) remove(name string) {
	item := &v1alpha1.DeployItem{ObjectMeta: s.named(name)}
	if err := s.admin.Delete(context.WithoutCancel(s.t.Context()), item); client.IgnoreNotFound(err) != nil {
		s.t.Error(err)
	}
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
	failure := contract.Error{Operation: "Apply", Reason: "Broken", Message: message}
	return func(i *v1alpha1.DeployItem) { contract.Fail(i, i.DeletionTimestamp != nil, failure, time.Now()) }
}

// itemsCase is a command for items, in words, its exit code and parts of what it prints and of its error. NS stands for
// the namespace.
type itemsCase struct {
	reason, command string
	code            int
	want            []string
}

// expect runs commands, none of which shows a secret.
func (s *shop) expect(cases ...itemsCase) {
	s.t.Helper()
	for _, tc := range cases {
		out, code, err := s.start(strings.Split(strings.ReplaceAll(tc.command, "NS", s.namespace), " ")...).wait()
		if code != tc.code {
			s.t.Errorf("%s: expected the exit code %d, but found %d: %v", tc.reason, tc.code, code, err)
		}
		if err != nil {
			out += err.Error()
		}
		for _, text := range tc.want {
			if text := strings.ReplaceAll(text, "NS", s.namespace); !strings.Contains(out, text) {
				s.t.Errorf("%s: expected %q in\n%s", tc.reason, text, out)
			}
		}
		if strings.Count(out, "your own rights") > 1 {
			s.t.Errorf("%s: the same advice is given twice:\n%s", tc.reason, out)
		}
		if strings.Contains(out, "t0ps3cret") {
			s.t.Errorf("%s: a secret is shown:\n%s", tc.reason, out)
		}
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
	out  *commandtest.Buffer
	done chan error
	end  context.CancelFunc
}

// start runs a command for items in the background. It ends with the test.
func (s *shop) start(args ...string) *running {
	s.t.Helper()
	ctx, end := context.WithCancel(s.t.Context())
	r := &running{t: s.t, out: &commandtest.Buffer{}, done: make(chan error, 1), end: end}
	go func() {
		_, err := pergola.RunIn(ctx, r.out, append([]string{"items", args[0], "--kubeconfig", s.kubeconfig}, args[1:]...)...)
		r.done <- err
	}()
	s.t.Cleanup(end)
	return r
}

func (r *running) wait() (out string, code int, err error) {
	r.t.Helper()
	err = <-r.done
	return r.out.String(), cli.Code(err), err
}

// until blocks until the command has printed a text. It fails when a slow machine would have printed it.
func (r *running) until(text string) {
	r.t.Helper()
	found := func(context.Context) (bool, error) { return strings.Contains(r.out.String(), text), nil }
	if err := wait.PollUntilContextTimeout(r.t.Context(), 10*time.Millisecond, time.Minute, true, found); err != nil {
		r.t.Fatalf("expected %q, but found: %s", text, r.out.String())
	}
}
