package deployer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/deployer"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// cluster is the API server that all tests of this package share.
var cluster *rest.Config

func TestMain(m *testing.M) {
	os.Exit(testenv.RunOnAPIServer(m, func(e *envtest.Environment) { cluster = e.Config }))
}

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// world is what one test plays in: a deployer with clients of its own and a namespace on the shared cluster.
type world struct {
	*testing.T

	plugin    *sdktest.Plugin
	target    *sdk.Target
	namespace string
	requests  *requestLog
	admin     dynamic.Interface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	admin, err := dynamic.NewForConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, target: targetOf(t, cluster), requests: &requestLog{}, admin: admin}
	w.plugin = w.newPlugin()
	namespace, err := admin.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "test-"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = namespace.GetName()
	return w
}

// newPlugin returns a deployer that remembers nothing, like one that was just started.
func (w *world) newPlugin() *sdktest.Plugin {
	d := deployer.New("pergola-manifest/test", targetclient.WrapTransport(w.requests.wrap))
	return sdktest.New(w.T, d, sdk.Name("manifest"), sdk.Version("test"), sdk.Types(v1alpha2.Type))
}

func targetOf(t *testing.T, config *rest.Config) *sdk.Target {
	t.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(map[string]any{"kubeconfig": string(kubeconfig)})
	if err != nil {
		t.Fatal(err)
	}
	return &sdk.Target{Name: "cluster", Type: landscaper.KubernetesClusterTargetType, Content: content}
}

// item returns a deploy item with the configuration.
func (w *world) item(config map[string]any) *landscaper.DeployItem {
	item := sdktest.DeployItem(v1alpha2.Type, config)
	item.Namespace, item.Name = w.namespace, "item"
	return item
}

// reconcile calls the deployer once and leaves the provider status in the item, as the host does.
func (w *world) reconcile(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	result := w.plugin.Reconcile(w.Context(), sdktest.Call{DeployItem: item, Target: w.target})
	keepStatus(item, result)
	return result
}

func (w *world) delete(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	result := w.plugin.Delete(w.Context(), sdktest.Call{DeployItem: item, Target: w.target})
	keepStatus(item, result)
	return result
}

func keepStatus(item *landscaper.DeployItem, result *sdktest.Result) {
	if len(result.ProviderStatus) > 0 {
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: result.ProviderStatus}
	}
}

// mustSucceed calls the deployer until the job is done.
func (w *world) mustSucceed(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	result := w.plugin.ReconcileUntilDone(w.Context(), sdktest.Call{DeployItem: item, Target: w.target})
	keepStatus(item, result)
	if result.Succeeded == nil {
		w.Fatalf("expected success, but found: %s", result)
	}
	if err := published.Validate(w.T, item.Spec.Config.Raw); err != nil {
		w.Errorf("the published schema refuses a configuration that is good: %v", err)
	}
	return result
}

func (w *world) mustWaitFor(result *sdktest.Result, parts ...string) {
	w.Helper()
	if result.InProgress == nil {
		w.Fatalf("expected a job in progress, but found: %s", result)
	}
	if strings.HasPrefix(result.InProgress.WaitingFor, "waiting for") {
		w.Errorf(`expected what is waited for without the words that the host adds, but found %q`, result.InProgress.WaitingFor)
	}
	last := result.Messages[len(result.Messages)-1].Progress
	if want := "waiting for " + result.InProgress.WaitingFor; last == nil || last.Message != want {
		w.Errorf("expected the progress %q, but found %v", want, last)
	}
	for _, part := range parts {
		if !strings.Contains(result.InProgress.WaitingFor, part) {
			w.Errorf("expected to wait for %q, but found %q", part, result.InProgress.WaitingFor)
		}
	}
}

// eventsOf returns the events of a call as "Reason: message".
func eventsOf(result *sdktest.Result) []string {
	var events []string
	for _, m := range result.Messages {
		if m.Event != nil {
			events = append(events, m.Event.Reason+": "+m.Event.Message)
		}
	}
	return events
}

func (w *world) mustFail(result *sdktest.Result, codes []landscaper.ErrorCode, parts ...string) {
	w.Helper()
	if result.Failed == nil {
		w.Fatalf("expected a failure, but found: %s", result)
	}
	if !slices.Equal(result.Failed.Codes(), codes) {
		w.Errorf("expected the codes %v, but found: %s", codes, result)
	}
	for _, part := range parts {
		if !strings.Contains(result.Failed.Error(), part) {
			w.Errorf("expected an error with %q, but found: %s", part, result)
		}
	}
}

var configurationProblem = []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}

// get returns an object of the test's namespace, or a cluster-scoped one; nil if there is none.
func (w *world) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.Helper()
	o, err := w.objects(resource).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

func (w *world) objects(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if resource == crds || resource == namespaces || resource == roles {
		return w.admin.Resource(resource)
	}
	return w.admin.Resource(resource).Namespace(w.namespace)
}

// mustGet is like get for an object that must exist.
func (w *world) mustGet(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.Helper()
	o, err := w.objects(resource).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatalf("get %s %s: %v", resource.Resource, name, err)
	}
	return o
}

// patch changes an object behind the deployer's back.
func (w *world) patch(resource schema.GroupVersionResource, name, patch string, subresources ...string) {
	w.Helper()
	_, err := w.objects(resource).Patch(w.Context(), name, "application/merge-patch+json", []byte(patch),
		metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
	if err != nil {
		w.Fatalf("patch %s %s: %v", resource.Resource, name, err)
	}
}

// managed returns the objects in the provider status as "Kind name".
func (w *world) managed(item *landscaper.DeployItem) []string {
	w.Helper()
	return managedIn(w.T, item.Status.ProviderStatus.Raw)
}

func managedIn(t *testing.T, document []byte) []string {
	t.Helper()
	var status v1alpha2.ProviderStatus
	if err := json.Unmarshal(document, &status); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range status.ManagedResources {
		names = append(names, m.Resource.Kind+" "+m.Resource.Name)
	}
	return names
}

// requestLog notes the requests to the target as "METHOD /path", apart from what a client asks once: for discovery and for the cluster.
type requestLog struct {
	mu  sync.Mutex
	all []string
	// fail and lose say which requests are not sent, and which answers do not arrive.
	fail, lose func(*http.Request) error
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		if !slices.Contains([]string{"/api", "/apis", "/api/v1/namespaces/kube-system"}, r.URL.Path) {
			l.all = append(l.all, r.Method+" "+r.URL.Path)
		}
		fail, lose := l.fail, l.lose
		l.mu.Unlock()
		if fail != nil {
			if err := fail(r); err != nil {
				return nil, err
			}
		}
		response, err := next.RoundTrip(r)
		if err == nil && lose != nil {
			if err := lose(r); err != nil {
				_ = response.Body.Close()
				return nil, err
			}
		}
		return response, err
	})
}

// take returns the requests since it was called last.
func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// failWith lets requests fail that the function has an error for; nil for none.
func (l *requestLog) failWith(fail func(*http.Request) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = fail
}

// loseWith lets answers get lost that the function has an error for; nil for none.
func (l *requestLog) loseWith(lose func(*http.Request) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = lose
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The builders of what is in a configuration.

type object = map[string]any

func config(manifests ...object) object {
	list := make([]any, 0, len(manifests))
	for _, m := range manifests {
		list = append(list, object{"policy": "manage", "manifest": m})
	}
	return object{
		"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2",
		"kind":       "ProviderConfiguration",
		"manifests":  list,
	}
}

func (w *world) configMap(name string, data object) object {
	return object{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": object{"name": name, "namespace": w.namespace},
		"data":     data,
	}
}

func (w *world) deployment(name, image string) object {
	return object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": object{"name": name, "namespace": w.namespace},
		"spec": object{
			"selector": object{"matchLabels": object{"app": name}},
			"template": object{
				"metadata": object{"labels": object{"app": name}},
				"spec": object{"containers": []any{object{
					"name": "main", "image": image,
					"resources": object{"requests": object{"cpu": "1000m", "memory": "1024Mi"}},
				}}},
			},
		},
	}
}

// ready pretends that the controllers of a Deployment have done their work.
func (w *world) ready(name string) {
	w.patch(deployments, name, `{"status":{"observedGeneration":`+fmt.Sprint(w.mustGet(deployments, name).GetGeneration())+
		`,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,"conditions":[`+
		`{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`, "status")
}

func crd(group, kind string) object {
	plural := strings.ToLower(kind) + "s"
	return object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": plural + "." + group},
		"spec": object{
			"group": group, "scope": "Namespaced",
			"names": object{"kind": kind, "plural": plural, "singular": strings.ToLower(kind), "listKind": kind + "List"},
			"versions": []any{object{
				"name": "v1", "served": true, "storage": true,
				"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
}

func (w *world) custom(group, kind, name string) object {
	return object{
		"apiVersion": group + "/v1", "kind": kind,
		"metadata": object{"name": name, "namespace": w.namespace},
		"spec":     object{"size": 3},
	}
}

// with returns a copy of the configuration with another field.
func with(config object, name string, value any) object {
	out := object{}
	for k, v := range config {
		out[k] = v
	}
	out[name] = value
	return out
}

// setConfig changes the configuration of a deploy item.
func (w *world) setConfig(item *landscaper.DeployItem, config object) {
	w.Helper()
	document, err := json.Marshal(config)
	if err != nil {
		w.Fatal(err)
	}
	item.Spec.Config = &runtime.RawExtension{Raw: document}
}
