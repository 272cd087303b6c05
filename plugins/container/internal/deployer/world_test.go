package deployer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/plugins/container/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

type object = map[string]any

const (
	acceptLoss   = "container.pergola.dev/accept-lost-state"
	forceCleanup = "container.deployer.landscaper.gardener.cloud/force-cleanup"
)

// world is the surroundings of one test: a host with a container deployer, whose Pods are in the namespace, with a node
// that plays the kubelet.
type world struct {
	*plugintest.Host

	client *kubernetes.Clientset
	rights *rights
	node   *node
	// ahead is the lead of the deployer's clock over the real one.
	ahead *atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	client, err := kubernetes.NewForConfig(plugintest.Config())
	if err != nil {
		t.Fatal(err)
	}
	used, ahead := &rights{used: map[string]bool{}}, &atomic.Int64{}
	w := &world{client: client, rights: used, ahead: ahead, Host: plugintest.NewHost(t, plugintest.HostOptions{
		APIVersion: "container.pergola.dev/v1alpha1", Kind: "ContainerConfiguration",
		Settings: object{"initContainer": object{"image": "helper"}},
		Start: func(w *plugintest.World) *sdktest.Plugin {
			wrap := func(next http.RoundTripper) http.RoundTripper { return w.Requests.Wrap(used.wrap(next)) }
			d := deployer.New(deployer.Options{
				UserAgent: "pergola-container/test", Clients: []target.Option{target.WrapTransport(wrap)},
				Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
			})
			return sdktest.New(w.TB, d, sdk.Name("container"), sdk.Version("test"), sdk.Types(v1alpha1.Type),
				sdk.ContextCredentials(), sdk.HostClusterAccess(), sdk.LatePickUp())
		},
	})}
	// The deployer has the rights of the documentation in the namespace.
	admin, err := ctrlclient.New(plugintest.Config(), ctrlclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := testenv.GrantContainerRights(t.Context(), admin, plugintest.Config(), w.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	w.Call.Target = nil
	w.Call.HostCluster = &sdk.HostCluster{Kubeconfig: kubeconfig, Namespace: w.Namespace, Installation: "test"}
	w.node = startNode(t, client, w.Namespace)
	return w
}

// item returns a deploy item that runs an image with these arguments, with a job. See node for their meaning.
func (w *world) item(args ...string) *landscaper.DeployItem {
	w.Helper()
	item := w.Item(v1alpha1.Type, "shop", w.config(args...))
	item.Namespace = "items-" + string(item.UID[:8])
	return item
}

func (w *world) config(args ...string) object {
	return object{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.ProviderConfigurationKind, "image": "image",
		"args": args,
	}
}

// onTarget has the Pods run on a Target, which leads to the same cluster.
func (w *world) onTarget(args ...string) object {
	w.Call.Target = &sdk.Target{
		Name: "edge", Type: landscaper.KubernetesClusterTargetType,
		Content: w.Marshal(object{"kubeconfig": string(w.Call.HostCluster.Kubeconfig)}),
	}
	config := w.config(args...)
	config["runOnTarget"] = object{"namespace": w.Namespace}
	return config
}

// begin begins a new job.
func (w *world) begin(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	plugintest.NewJob(item)
	return w.Do(plugintest.Reconcile, item)
}

// end runs a new job to its end.
func (w *world) end(operation plugintest.Operation, item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	plugintest.NewJob(item)
	return w.Finish(operation, item)
}

// counts runs a new job with "count" to its success, with this count among its exports.
func (w *world) counts(item *landscaper.DeployItem, count int) {
	w.Helper()
	w.mustCount(w.end(plugintest.Reconcile, item), count)
}

func (w *world) mustCount(result *sdktest.Result, count int) {
	w.Helper()
	if result.Succeeded == nil || fmt.Sprint(result.Succeeded.Exports["count"]) != fmt.Sprint(count) {
		w.Fatalf("expected a success with count %d, but found: %s", count, result)
	}
}

// mustFail expects a failure with a reason and these parts of its error.
func (w *world) mustFail(result *sdktest.Result, reason string, parts ...string) {
	w.Helper()
	if result.Failed == nil || result.Failed.Errors[0].Reason != reason {
		w.Fatalf("expected the reason %s, but found %s", reason, result)
	}
	for _, part := range parts {
		if !strings.Contains(result.Failed.Error(), part) {
			w.Errorf("expected %q in %s", part, result)
		}
	}
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

// change changes the provider status of an item.
func (w *world) change(item *landscaper.DeployItem, how func(*v1alpha1.ProviderStatus)) {
	w.Helper()
	status := w.status(item)
	how(status)
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: w.Marshal(status)}
}

// pods are those in the namespace.
func (w *world) pods() []corev1.Pod {
	w.Helper()
	list, err := w.client.CoreV1().Pods(w.Namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// access is the Secret of the wait container.
func (w *world) access(item *landscaper.DeployItem) map[string][]byte {
	w.Helper()
	name := w.status(item).Run.Name + "-access"
	secret, err := w.client.CoreV1().Secrets(w.Namespace).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return secret.Data
}

var (
	pods         = plugintest.Resource{Version: "v1", Resource: "pods"}
	roles        = plugintest.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	roleBindings = plugintest.Resource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
)

// left are the objects in the namespace with the labels of the deployer, by kinds and parts.
func (w *world) left() (found []string) {
	w.Helper()
	for kind, resource := range map[string]plugintest.Resource{
		"Pod": pods, "Secret": plugintest.Secrets, "ServiceAccount": plugintest.ServiceAccounts, "Role": roles,
		"RoleBinding": roleBindings,
	} {
		list, err := w.Objects(resource).List(w.Context(), metav1.ListOptions{LabelSelector: "container.pergola.dev/item"})
		if err != nil {
			w.Fatal(err)
		}
		for _, o := range list.Items {
			found = append(found, kind+" "+o.GetLabels()["container.pergola.dev/part"])
		}
	}
	slices.Sort(found)
	return found
}

// mustHave waits until nothing is left but these.
func (w *world) mustHave(want ...string) {
	w.Helper()
	await.For(w.Context(), w, plugintest.Patience, fmt.Sprintf("nothing to be left but %v", want),
		func(context.Context) (string, error) {
			if found := w.left(); !slices.Equal(found, want) {
				return fmt.Sprintf("found %v", found), nil
			}
			return "", nil
		})
}

// discard removes all that is left of an item.
func (w *world) discard(item *landscaper.DeployItem) {
	w.Helper()
	item.Annotations = map[string]string{forceCleanup: "true"}
	if result := w.end(plugintest.Delete, item); result.Failed != nil {
		w.Fatalf("clean up: %s", result)
	}
	w.mustHave()
}

// mustHaveRun expects that main has run in so many Pods.
func (w *world) mustHaveRun(pods int) {
	w.Helper()
	if runs := w.node.ranIn(); len(runs) != pods {
		w.Errorf("expected runs in %d Pods, but found %s", pods, describe(runs))
	}
}

// awaitRun waits until main has run in so many Pods.
func (w *world) awaitRun(pods int) {
	w.Helper()
	w.eventually(fmt.Sprintf("main to run in %d Pods", pods), func() bool { return len(w.node.ranIn()) >= pods })
}

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
	await.For(w.Context(), w, plugintest.Patience, what, func(context.Context) (string, error) {
		if condition() {
			return "", nil
		}
		return "main has run in " + describe(w.node.ranIn()), nil
	})
}
