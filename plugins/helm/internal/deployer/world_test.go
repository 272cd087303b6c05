package deployer_test

import (
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/worker"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
)

func TestMain(m *testing.M) {
	worker.Main(helm3.New())
	os.Exit(plugintest.Main(m))
}

var configMaps, secrets, namespaces = plugintest.ConfigMaps, plugintest.Secrets, plugintest.Namespaces

type object = map[string]any

// world is what one test plays in: a host with a helm deployer. Helm works in the test's own process, so that its
// requests can be seen.
type world struct {
	*plugintest.Host

	orders *orderLog
	clock  *clocktesting.FakePassiveClock // of the cache of charts
}

func newWorld(t *testing.T) *world {
	t.Helper()
	orders, now := &orderLog{}, clocktesting.NewFakePassiveClock(time.Now())
	return &world{orders: orders, clock: now, Host: plugintest.NewHost(t, hostOptions(now, orders))}
}

// hostOptions are those of a host with a helm deployer.
func hostOptions(now clock.PassiveClock, orders *orderLog) plugintest.HostOptions {
	return plugintest.HostOptions{
		APIVersion: "helm.pergola.dev/v1alpha1", Kind: "HelmConfiguration",
		Start: func(w *plugintest.World) *sdktest.Plugin {
			return start(w, now, func(int, *slog.Logger) helm.Helm {
				return &listener{Helm: helm3.New(w.Requests.Wrap), orders: orders}
			})
		},
	}
}

// start starts a deployer that has Helm do its work.
func start(
	w *plugintest.World, now clock.PassiveClock, by func(workers int, log *slog.Logger) helm.Helm,
) *sdktest.Plugin {
	w.Helper()
	d, err := deployer.New(deployer.Options{
		UserAgent: "pergola-helm/test",
		CacheDir:  w.TempDir(),
		Helm:      by,
		Targets:   []target.Option{target.WrapTransport(w.Requests.Wrap)},
		Clock:     now,
		Log:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.Fatal(err)
	}
	return sdktest.New(w.TB, d, sdk.Name("helm"), sdk.Version("test"), sdk.Types(v1alpha1.Type), sdk.ContextCredentials(),
		sdk.LatePickUp())
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	return &world{Host: w.In(t), orders: w.orders, clock: w.clock}
}

// at returns the same world with another namespace.
func (w *world) at(namespace string) *world {
	inner := *w.Host
	inner.World = w.At(namespace)
	return &world{Host: &inner, orders: w.orders, clock: w.clock}
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
		"chart": chart, "name": "shop", "namespace": w.Namespace,
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
	return w.Item(v1alpha1.Type, name, config)
}

// setConfig changes the configuration of an item, which gives it a new job.
func (w *world) setConfig(item *landscaper.DeployItem, config object) {
	w.Helper()
	w.SetConfig(item, config)
	plugintest.NewJob(item)
}

// revisions returns those of the release as "1 superseded".
func (w *world) revisions(release string) []string {
	w.Helper()
	list, err := w.Objects(secrets).List(w.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
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
	for _, m := range w.Managed(item.Status.ProviderStatus.Raw) {
		names = append(names, m.Kind+" "+m.Name)
	}
	slices.Sort(names)
	return names
}
