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
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/plugins/container/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

type object = map[string]any

// world is what one test plays in: a host with a container deployer, whose Pods are in the namespace, with a node
// that plays the kubelet.
type world struct {
	*plugintest.Host

	client *kubernetes.Clientset
	// rights are those that the deployer uses.
	rights *rights
	node   *node
	// ahead is how far the clock of the deployer is ahead of the real one.
	ahead *atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	client, err := kubernetes.NewForConfig(plugintest.Config())
	if err != nil {
		t.Fatal(err)
	}
	used, ahead := &rights{}, &atomic.Int64{}
	w := &world{client: client, rights: used, ahead: ahead, Host: plugintest.NewHost(t, plugintest.HostOptions{
		APIVersion: "container.pergola.dev/v1alpha1", Kind: "ContainerConfiguration", Settings: object{
			"initContainer": object{"image": "helper"},
		},
		Start: func(w *plugintest.World) *sdktest.Plugin {
			d := deployer.New(deployer.Options{
				UserAgent: "pergola-container/test",
				Now:       func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
				Clients: []target.Option{target.WrapTransport(func(next http.RoundTripper) http.RoundTripper {
					return w.Requests.Wrap(used.wrap(next))
				})},
			})
			return sdktest.New(w.TB, d,
				sdk.Name("container"), sdk.Version("test"), sdk.Types(v1alpha1.Type), sdk.ContextCredentials(),
				sdk.HostClusterAccess(),
				sdk.LatePickUp())
		},
	})}
	w.Call.Target = nil
	w.Call.HostCluster = &sdk.HostCluster{Kubeconfig: w.grant(), Namespace: w.Namespace, Installation: "test"}
	w.node = startNode(t, client, w.Namespace)
	return w
}

// grant returns a kubeconfig with the rights of the documentation in the namespace.
func (w *world) grant() []byte {
	w.Helper()
	admin, err := ctrlclient.New(plugintest.Config(), ctrlclient.Options{})
	if err != nil {
		w.Fatal(err)
	}
	kubeconfig, err := testenv.GrantContainerRights(w.Context(), admin, plugintest.Config(), w.Namespace)
	if err != nil {
		w.Fatal(err)
	}
	return kubeconfig
}

// item returns a deploy item that runs an image with these arguments. See node for what they do.
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

// succeed runs a new job to its success and returns its exports.
func (w *world) succeed(item *landscaper.DeployItem) object {
	w.Helper()
	plugintest.NewJob(item)
	return w.exportsOf(w.Finish(plugintest.Reconcile, item))
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
	plugintest.NewJob(item)
	result := w.Finish(plugintest.Reconcile, item)
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

// left are the objects in the namespace that have the labels of the deployer, by kinds and parts. Pods that end are
// waited for.
func (w *world) left() []string {
	w.Helper()
	list := metav1.ListOptions{LabelSelector: "container.pergola.dev/item"}
	var found []string
	add := func(kind string, o metav1.ObjectMeta) {
		found = append(found, kind+" "+o.Labels["container.pergola.dev/part"])
	}
	core, rbac := w.client.CoreV1(), w.client.RbacV1()
	pods, err1 := core.Pods(w.Namespace).List(w.Context(), list)
	secrets, err2 := core.Secrets(w.Namespace).List(w.Context(), list)
	accounts, err3 := core.ServiceAccounts(w.Namespace).List(w.Context(), list)
	roles, err4 := rbac.Roles(w.Namespace).List(w.Context(), list)
	bindings, err5 := rbac.RoleBindings(w.Namespace).List(w.Context(), list)
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
	await.For(w.Context(), w, plugintest.Patience, fmt.Sprintf("nothing to be left but %v", want),
		func(context.Context) (string, error) {
			if found := w.left(); !slices.Equal(found, want) {
				return fmt.Sprintf("found %v", found), nil
			}
			return "", nil
		})
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
