package items

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
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
	host := &coordinationv1.Lease{ObjectMeta: s.named("pergola-0"), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("pergola-0"), RenewTime: ptr.To(metav1.NowMicro()), LeaseDurationSeconds: ptr.To(int32(3600)),
	}}
	host.Labels = map[string]string{"host.pergola.dev/group": "shop"}
	s.create(host)
	return s
}

// as writes a kubeconfig of a user, or of the administrator, for the namespace of the shop. Its context "other" is for
// another namespace.
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

// allow grants a user a verb for resources of the namespace, such as "deployitems.landscaper.gardener.cloud", and
// returns the user's kubeconfig.
func (s *shop) allow(user, verb string, resources ...string) string {
	s.t.Helper()
	name := strings.ReplaceAll(user, ":", "-")
	role := &rbacv1.Role{ObjectMeta: s.named(name)}
	for _, resource := range resources {
		resource, group, _ := strings.Cut(resource, ".")
		rule := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
		role.Rules = append(role.Rules, rule)
	}
	s.create(role)
	s.create(&rbacv1.RoleBinding{
		ObjectMeta: s.named(name),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	})
	return s.as(user)
}

func (s *shop) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: s.namespace}
}

func (s *shop) create(object client.Object) {
	s.t.Helper()
	s.check(s.admin.Create(s.t.Context(), object))
}

// target creates a Target for the shared cluster, with a Secret.
func (s *shop) target(name string) {
	s.t.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(s.config)
	s.check(err)
	s.create(&corev1.Secret{ObjectMeta: s.named(name), StringData: map[string]string{"kubeconfig": string(kubeconfig)}})
	s.create(&v1alpha1.Target{ObjectMeta: s.named(name), Spec: v1alpha1.TargetSpec{
		Type: v1alpha1.KubernetesClusterTargetType, SecretRef: &v1alpha1.LocalSecretReference{Name: name, Key: "kubeconfig"},
	}})
}

// selfTarget creates a Target for the shared cluster and the ServiceAccount of a configuration.
func (s *shop) selfTarget(name, configuration string) {
	s.t.Helper()
	s.create(&v1alpha1.Target{ObjectMeta: s.named(name), Spec: v1alpha1.TargetSpec{
		Type:          v1alpha1.KubernetesClusterTargetType,
		Configuration: &runtime.RawExtension{Raw: []byte(`{"selfConfig":` + configuration + `}`)},
	}})
}

type itemStep func(*v1alpha1.DeployItem)

// item creates an item after some steps.
func (s *shop) item(name string, steps ...itemStep) *v1alpha1.DeployItem {
	s.t.Helper()
	item := &v1alpha1.DeployItem{ObjectMeta: s.named(name), Spec: v1alpha1.DeployItemSpec{
		Type:   "landscaper.gardener.cloud/helm",
		Config: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Any","password":"t0ps3cret"}`)},
	}}
	item.Labels = map[string]string{"app": name}
	for _, step := range steps {
		step(item)
	}
	s.create(item)
	s.t.Cleanup(func() { s.remove(name) })
	return s.take(name, steps...) // the status, too
}

// take takes steps of an item.
func (s *shop) take(name string, steps ...itemStep) *v1alpha1.DeployItem {
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
	return item
}

func (s *shop) remove(name string) {
	item := &v1alpha1.DeployItem{ObjectMeta: s.named(name)}
	if err := s.admin.Delete(context.WithoutCancel(s.t.Context()), item); client.IgnoreNotFound(err) != nil {
		s.t.Error(err)
	}
}

// on sets the Target.
func on(target string) itemStep {
	return func(i *v1alpha1.DeployItem) { i.Spec.Target = &v1alpha1.ObjectReference{Name: target} }
}

// keeps sets the provider status.
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

// itemsCase is a command for items, in words, its exit code and parts of its output and error. NS is the namespace. A
// part with a "!" must not be there.
type itemsCase struct {
	reason, command string
	code            int
	want            []string
}

// expect runs commands. None of them shows a secret.
func (s *shop) expect(cases ...itemsCase) {
	s.t.Helper()
	for _, tc := range cases {
		out, code, err := s.run(strings.Split(strings.ReplaceAll(tc.command, "NS", s.namespace), " ")...)
		if code != tc.code {
			s.t.Errorf("%s: expected the exit code %d, but found %d: %v", tc.reason, tc.code, code, err)
		}
		if err != nil {
			out += err.Error()
		}
		for _, text := range tc.want {
			text, unwanted := strings.CutPrefix(strings.ReplaceAll(text, "NS", s.namespace), "!")
			if strings.Contains(out, text) == unwanted {
				s.t.Errorf("%s: expected %q in the output: %t\n%s", tc.reason, text, !unwanted, out)
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

// run runs a command for items and returns its output on both streams, and its error with the exit code.
func (s *shop) run(args ...string) (out string, code int, err error) {
	s.t.Helper()
	return s.start(args...).wait()
}

// running is a command under way.
type running struct {
	t    *testing.T
	out  *commandtest.Buffer
	done chan error
	end  context.CancelFunc
}

// start runs a command for items in the background until the end of the test.
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
