package deployer_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/worker"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// cluster is a real API server that all tests of this package share.
var cluster *rest.Config

func TestMain(m *testing.M) {
	worker.Main(helm3.New())
	os.Exit(testenv.RunOnAPIServer(m, func(e *envtest.Environment) { cluster = e.Config }))
}

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

type object = map[string]any

// world is what one test plays in: a deployer with clients of its own and a namespace on the shared cluster. Helm works in the test's own
// process, so that its requests can be seen.
type world struct {
	*testing.T

	plugin    *sdktest.Plugin
	target    *sdk.Target
	namespace string
	requests  *requestLog
	orders    *orderLog
	admin     dynamic.Interface
	// credentials of the items' Context; nil for none.
	credentials *sdk.Credentials
}

func newWorld(t *testing.T) *world {
	t.Helper()
	admin, err := dynamic.NewForConfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, target: targetOf(t, cluster), requests: &requestLog{}, orders: &orderLog{}, admin: admin}
	w.plugin = w.newPlugin()
	namespace, err := admin.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": object{"generateName": "test-"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = namespace.GetName()
	return w
}

// newPlugin returns a deployer that remembers nothing, like one that was just started.
func (w *world) newPlugin() *sdktest.Plugin {
	w.Helper()
	d, err := deployer.New(deployer.Options{
		UserAgent: "pergola-helm/test",
		CacheDir:  w.TempDir(),
		Helm: func(int, *slog.Logger) helm.Helm {
			return &listener{Helm: helm3.New(helm3.WrapTransport(w.requests.wrap)), orders: w.orders}
		},
		Targets: []targetclient.Option{targetclient.WrapTransport(w.requests.wrap)},
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.Fatal(err)
	}
	return sdktest.New(w.T, d, sdk.Name("helm"), sdk.Version("test"), sdk.Types(v1alpha1.Type), sdk.ContextCredentials())
}

// configure gives the plugin fields of its own configuration.
func (w *world) configure(fields object) {
	w.Helper()
	document := object{"apiVersion": "helm.pergola.dev/v1alpha1", "kind": "HelmConfiguration", "targets": object{"requestsPerSecond": 10000}}
	maps.Copy(document, fields)
	raw, err := json.Marshal(document)
	if err != nil {
		w.Fatal(err)
	}
	problems, err := w.plugin.Configure(w.Context(), raw)
	if err != nil || len(problems) > 0 {
		w.Fatalf("configure the plugin: %v, %v", problems, err)
	}
}

func targetOf(t *testing.T, config *rest.Config) *sdk.Target {
	t.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(object{"kubeconfig": string(kubeconfig)})
	if err != nil {
		t.Fatal(err)
	}
	return &sdk.Target{Name: "cluster", Type: landscaper.KubernetesClusterTargetType, Content: content}
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	inner := *w
	inner.T = t
	return &inner
}

// The builders of what is in a configuration.

// chart returns a chart of the tests as an archive in the configuration.
func chart(name string, opts ...charts.Option) object {
	return object{"archive": object{"raw": base64.StdEncoding.EncodeToString(charts.Pack(name, opts...))}}
}

// config returns a provider configuration for a release in the namespace of the test.
func (w *world) config(chart, values object, more ...object) object {
	c := object{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ProviderConfigurationKind,
		"chart": chart, "name": "shop", "namespace": w.namespace,
	}
	if values != nil {
		c["values"] = values
	}
	for _, fields := range more {
		for key, value := range fields {
			c[key] = value
		}
	}
	return c
}

// item returns a deploy item with the configuration.
func (w *world) item(config object) *landscaper.DeployItem { return w.itemOf("item", config) }

func (w *world) itemOf(name string, config object) *landscaper.DeployItem {
	item := sdktest.DeployItem(v1alpha1.Type, config)
	item.Namespace, item.Name, item.UID = w.namespace, name, types.UID(w.namespace+"/"+name)
	startJob(item)
	return item
}

var jobs struct {
	sync.Mutex
	count int
}

// startJob gives the item a new job, as a host does.
func startJob(item *landscaper.DeployItem) {
	jobs.Lock()
	defer jobs.Unlock()
	jobs.count++
	item.Status.JobID = fmt.Sprintf("job-%d", jobs.count)
	item.Status.Phase = landscaper.DeployItemPhaseInit
}

func (w *world) setConfig(item *landscaper.DeployItem, config object) {
	w.Helper()
	raw, err := json.Marshal(config)
	if err != nil {
		w.Fatal(err)
	}
	item.Spec.Config = &runtime.RawExtension{Raw: raw}
	startJob(item)
}

// The calls.

func (w *world) call(item *landscaper.DeployItem) sdktest.Call {
	return sdktest.Call{DeployItem: item, Target: w.target, Credentials: w.credentials}
}

// reconcile calls the deployer once and leaves the provider status in the item, as the host does.
func (w *world) reconcile(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	return keepStatus(item, w.plugin.Reconcile(w.Context(), w.call(item)))
}

func keepStatus(item *landscaper.DeployItem, result *sdktest.Result) *sdktest.Result {
	if len(result.ProviderStatus) > 0 {
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: result.ProviderStatus}
	}
	return result
}

// mustSucceed calls the deployer until the job is done.
func (w *world) mustSucceed(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	result := keepStatus(item, w.plugin.ReconcileUntilDone(w.Context(), w.call(item)))
	if result.Succeeded == nil {
		w.Fatalf("expected success, but found: %s", result)
	}
	return result
}

// mustDelete deletes the item until nothing is left of it.
func (w *world) mustDelete(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	item.Status.Phase = landscaper.DeployItemPhaseInitDelete
	result := keepStatus(item, w.plugin.DeleteUntilDone(w.Context(), w.call(item)))
	if result.Succeeded == nil {
		w.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	return result
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

// The target.

// get returns an object of the test's namespace; nil if there is none.
func (w *world) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.Helper()
	o, err := w.admin.Resource(resource).Namespace(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return o
}

// names returns those of all objects of a kind in the test's namespace.
func (w *world) names(resource schema.GroupVersionResource) []string {
	w.Helper()
	list, err := w.admin.Resource(resource).Namespace(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, o := range list.Items {
		if o.GetName() != "kube-root-ca.crt" {
			names = append(names, o.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// revisions returns those of the release as "1 superseded".
func (w *world) revisions(release string) []string {
	w.Helper()
	list, err := w.admin.Resource(secrets).Namespace(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, o := range list.Items {
		all = append(all, o.GetLabels()["version"]+" "+o.GetLabels()["status"])
	}
	slices.Sort(all)
	return all
}

// patch changes an object behind the deployer's back.
func (w *world) patch(resource schema.GroupVersionResource, name, patch string) {
	w.Helper()
	_, err := w.admin.Resource(resource).Namespace(w.namespace).Patch(w.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		w.Fatalf("patch %s %s: %v", resource.Resource, name, err)
	}
}

func (w *world) status(item *landscaper.DeployItem) v1alpha1.ProviderStatus {
	w.Helper()
	var status v1alpha1.ProviderStatus
	if err := json.Unmarshal(item.Status.ProviderStatus.Raw, &status); err != nil {
		w.Fatal(err)
	}
	return status
}

// managed returns the objects in the provider status as "Kind name".
func (w *world) managed(item *landscaper.DeployItem) []string {
	w.Helper()
	var names []string
	for _, m := range w.status(item).ManagedResources {
		names = append(names, m.Resource.Kind+" "+m.Resource.Name)
	}
	slices.Sort(names)
	return names
}

func (w *world) destroy(resource schema.GroupVersionResource, name string) {
	w.Helper()
	if err := w.admin.Resource(resource).Namespace(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatalf("delete %s %s: %v", resource.Resource, name, err)
	}
}
