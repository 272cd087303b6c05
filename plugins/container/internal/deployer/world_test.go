package deployer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/plugins/container/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// apiServer is a real one that all tests of this package share. Nothing runs Pods there: see node.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	os.Exit(testenv.RunOnAPIServer(m, func(e *envtest.Environment) { apiServer = e.Config }))
}

type object = map[string]any

// patience bounds how long a test waits for something that must happen.
const patience = time.Minute

// world is what one test plays in: a namespace for Pods with a node that plays the kubelet, and a deployer.
type world struct {
	*testing.T

	namespace string
	client    *kubernetes.Clientset
	access    *sdk.HostCluster
	// target is that of all items, which leads to the same cluster.
	target *sdk.Target
	// warnings are the reasons of the warning events so far.
	warnings []string
	node     *node
	faults   *faults
	refusals *refusals
	plugin   *sdktest.Plugin
}

func newWorld(t *testing.T) *world {
	t.Helper()
	client, err := kubernetes.NewForConfig(apiServer)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, namespace: "pods-" + uuid.NewString()[:8], client: client, faults: &faults{}, refusals: &refusals{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.access = &sdk.HostCluster{Kubeconfig: w.grant(), Namespace: w.namespace, Installation: "test"}
	w.node = startNode(t, client, w.namespace)
	w.restart(nil)
	return w
}

// grant returns a kubeconfig with the rights of the documentation in the namespace.
func (w *world) grant() []byte {
	w.Helper()
	admin, err := ctrlclient.New(apiServer, ctrlclient.Options{})
	if err != nil {
		w.Fatal(err)
	}
	kubeconfig, err := testenv.GrantContainerRights(w.Context(), admin, apiServer, w.namespace)
	if err != nil {
		w.Fatal(err)
	}
	return kubeconfig
}

// restart replaces the plugin by one that remembers nothing, with more fields in its configuration.
func (w *world) restart(more object) {
	w.Helper()
	d := deployer.New(deployer.Options{
		UserAgent: "pergola-container/test",
		Clients: []targetclient.Option{targetclient.WrapTransport(func(next http.RoundTripper) http.RoundTripper {
			return w.faults.wrap(w.refusals.wrap(next))
		})},
	})
	w.plugin = sdktest.New(w.T, d, sdk.Name("container"), sdk.Version("test"), sdk.Types(v1alpha1.Type), sdk.ContextCredentials(), sdk.HostClusterAccess())
	config := object{
		"apiVersion": "container.pergola.dev/v1alpha1", "kind": "ContainerConfiguration",
		"targets": object{"requestsPerSecond": 10000}, "initContainer": object{"image": "helper"},
	}
	maps.Copy(config, more)
	problems, err := w.plugin.Configure(w.Context(), w.marshal(config))
	if err != nil || len(problems) > 0 {
		w.Fatalf("configure the plugin: %v, %v", problems, err)
	}
}

// item returns a deploy item that runs an image with these arguments, and no job. See node for what the arguments do.
func (w *world) item(args ...string) *landscaper.DeployItem {
	w.Helper()
	item := sdktest.DeployItem(v1alpha1.Type, w.config(args...))
	item.Name, item.Namespace, item.UID = "shop", "items-"+uuid.NewString()[:8], types.UID(uuid.NewString())
	return item
}

func (w *world) config(args ...string) object {
	return object{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ProviderConfigurationKind, "image": "image", "args": args,
	}
}

func (w *world) setConfig(item *landscaper.DeployItem, config object) {
	w.Helper()
	item.Spec.Config = &runtime.RawExtension{Raw: w.marshal(config)}
}

// newJob gives an item another job.
func newJob(item *landscaper.DeployItem) { item.Status.JobID = uuid.NewString() }

// call calls the plugin once, and keeps what it saves, unless it is dead by then.
func (w *world) call(item *landscaper.DeployItem, operation func(context.Context, sdktest.Call) *sdktest.Result) *sdktest.Result {
	w.Helper()
	return w.callIn(w.Context(), item, operation)
}

// callIn is call within the time of a context.
func (w *world) callIn(ctx context.Context, item *landscaper.DeployItem, operation func(context.Context, sdktest.Call) *sdktest.Result) *sdktest.Result {
	w.Helper()
	saved := item.Status.ProviderStatus
	result := operation(ctx, sdktest.Call{
		DeployItem: item.DeepCopy(), JobID: item.Status.JobID, HostCluster: w.access, Target: w.target,
		OnMessage: func(m sdktest.Message) {
			if m.Event != nil && m.Event.Warning {
				w.warnings = append(w.warnings, m.Event.Reason)
			}
			if m.ProviderStatus != nil && w.faults.save() {
				saved = &runtime.RawExtension{Raw: m.ProviderStatus}
				w.faults.saved()
			}
		},
	})
	if len(result.ProviderStatus) > 0 && !w.faults.isDead() {
		saved = &runtime.RawExtension{Raw: result.ProviderStatus}
	}
	item.Status.ProviderStatus = saved
	return result
}

// finish calls the plugin until the job is over.
func (w *world) finish(item *landscaper.DeployItem, operation func(context.Context, sdktest.Call) *sdktest.Result) *sdktest.Result {
	w.Helper()
	deadline := time.Now().Add(patience)
	for {
		result := w.call(item, operation)
		if isOver(result) {
			return result
		}
		if time.Now().After(deadline) {
			w.Fatalf("the job does not come to an end: %s", result)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// isOver tells whether a job is over: an error without a code is tried again.
func isOver(result *sdktest.Result) bool {
	return result.Succeeded != nil || result.Failed != nil && len(result.Failed.Codes()) > 0
}

// succeed runs a new job to its success and returns its exports.
func (w *world) succeed(item *landscaper.DeployItem) object {
	w.Helper()
	newJob(item)
	return w.exportsOf(w.finish(item, w.plugin.Reconcile))
}

func (w *world) exportsOf(result *sdktest.Result) object {
	w.Helper()
	if result.Succeeded == nil {
		w.Fatalf("expected a success, but found: %s", result)
	}
	return result.Succeeded.Exports
}

// failing runs a new job to its failure, of which it returns the error.
func (w *world) failing(item *landscaper.DeployItem) string {
	w.Helper()
	newJob(item)
	result := w.finish(item, w.plugin.Reconcile)
	if result.Failed == nil {
		w.Fatalf("expected a failure, but found: %s", result)
	}
	return result.Failed.Error()
}

func (w *world) status(item *landscaper.DeployItem) *v1alpha1.ProviderStatus {
	w.Helper()
	status := &v1alpha1.ProviderStatus{}
	if item.Status.ProviderStatus != nil {
		if err := json.Unmarshal(item.Status.ProviderStatus.Raw, status); err != nil {
			w.Fatal(err)
		}
	}
	return status
}

// left are the objects in the namespace that have the labels of the deployer, by kinds and parts. Pods that end are waited for.
func (w *world) left() []string {
	w.Helper()
	list := metav1.ListOptions{LabelSelector: "container.pergola.dev/item"}
	var found []string
	add := func(kind string, o metav1.ObjectMeta) {
		found = append(found, kind+" "+o.Labels["container.pergola.dev/part"])
	}
	core, rbac := w.client.CoreV1(), w.client.RbacV1()
	pods, err1 := core.Pods(w.namespace).List(w.Context(), list)
	secrets, err2 := core.Secrets(w.namespace).List(w.Context(), list)
	accounts, err3 := core.ServiceAccounts(w.namespace).List(w.Context(), list)
	roles, err4 := rbac.Roles(w.namespace).List(w.Context(), list)
	bindings, err5 := rbac.RoleBindings(w.namespace).List(w.Context(), list)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		w.Fatal(err)
	}
	for _, o := range pods.Items {
		add("Pod", o.ObjectMeta)
	}
	for _, o := range secrets.Items {
		add("Secret", o.ObjectMeta)
	}
	for _, o := range accounts.Items {
		add("ServiceAccount", o.ObjectMeta)
	}
	for _, o := range roles.Items {
		add("Role", o.ObjectMeta)
	}
	for _, o := range bindings.Items {
		add("RoleBinding", o.ObjectMeta)
	}
	slices.Sort(found)
	return found
}

// mustHave waits until nothing is left but these.
func (w *world) mustHave(want ...string) {
	w.Helper()
	await.For(w.Context(), w, patience, fmt.Sprintf("nothing to be left but %v", want), func(context.Context) (string, error) {
		if found := w.left(); !slices.Equal(found, want) {
			return fmt.Sprintf("found %v", found), nil
		}
		return "", nil
	})
}

func (w *world) marshal(v any) []byte {
	w.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		w.Fatal(err)
	}
	return content
}

var errKilled = errors.New("the plugin was killed")

// faults kill the plugin at one of its steps that others can see: requests that write, and what it saves.
type faults struct {
	mu    sync.Mutex
	armed bool
	// at is the step at which it is killed, after it has had its effect or before.
	at, steps   int
	after, dead bool
}

// kill has the plugin killed at its nth step from now on.
func (f *faults) kill(n int, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.at, f.steps, f.after, f.dead = true, n, 0, after, false
}

// revive ends that, and tells whether the plugin was killed.
func (f *faults) revive() (killed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	killed = f.dead
	f.armed, f.dead = false, false
	return killed
}

func (f *faults) isDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// begin counts a step, and tells whether it has any effect.
func (f *faults) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return false
	}
	f.steps++
	if f.armed && !f.after && f.steps > f.at {
		f.dead = true
	}
	return !f.dead
}

// end is the end of a step, and tells whether the plugin lives to see it.
func (f *faults) end() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.armed && f.after && f.steps > f.at {
		f.dead = true
	}
	return !f.dead
}

func (f *faults) save() bool { return f.begin() }
func (f *faults) saved()     { f.end() }

func (f *faults) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			if f.isDead() {
				return nil, errKilled
			}
			return next.RoundTrip(r)
		}
		if !f.begin() {
			return nil, errKilled
		}
		res, err := next.RoundTrip(r)
		if !f.end() {
			if err == nil {
				_ = res.Body.Close() // nobody reads it any more
			}
			return nil, errKilled
		}
		return res, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// describe names runs for messages.
func describe(runs map[string]int) string {
	var texts []string
	for _, pod := range slices.Sorted(maps.Keys(runs)) {
		texts = append(texts, fmt.Sprintf("%s %d", pod, runs[pod]))
	}
	return strings.Join(texts, ", ")
}

func (w *world) eventually(what string, condition func() bool) {
	w.Helper()
	await.For(w.Context(), w, patience, what, func(context.Context) (string, error) {
		if condition() {
			return "", nil
		}
		return "main has run in " + describe(w.node.ranIn()), nil
	})
}
