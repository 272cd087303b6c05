package deployer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/deployer"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/worker"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestMain(m *testing.M) {
	worker.Main(helm3.New())
	os.Exit(plugintest.Main(m))
}

var (
	configMaps, secrets      = plugintest.ConfigMaps, plugintest.Secrets
	namespaces, clusterRoles = plugintest.Namespaces, plugintest.ClusterRoles
	jobs                     = plugintest.Jobs
)

// The codes of failures.
var (
	configProblem = plugintest.ConfigurationProblem
	timedOut      = []landscaper.ErrorCode{landscaper.ErrorTimeout}
)

type object = map[string]any

// world is the place of one test: a host with a helm deployer. Helm works in the test's own process, so that its
// requests can be seen.
type world struct {
	*plugintest.Host

	// plain: configurations are without a release.
	plain  bool
	orders *orderLog
	clock  *clocktesting.FakePassiveClock // of the cache of charts
}

func newWorld(t testing.TB) *world {
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

// start starts a deployer with an executor of its requests to Helm.
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

// bothModes runs a test with a release and without.
func bothModes(t *testing.T, test func(w *world)) {
	t.Helper()
	for name, plain := range map[string]bool{"with a release": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.plain = plain
			test(w)
		})
	}
}

// withProcesses has Helm work in processes of its own, as the plugin does it, with tight limits.
func (w *world) withProcesses() *world {
	w.Helper()
	w.Plugin = start(w.World, w.clock, func(workers int, log *slog.Logger) helm.Helm {
		return worker.New(worker.Options{Workers: workers, Log: log})
	})
	w.Configure(object{"workers": 2, "limits": object{
		"unpacked": "20Mi", "rendered": "10Mi", "renderTime": "4s", "memory": "512Mi",
	}})
	return w
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	inner := *w
	inner.Host = w.In(t)
	return &inner
}

// at returns the same world with another namespace.
func (w *world) at(namespace string) *world {
	inner := *w
	host := *w.Host
	host.World = w.At(namespace)
	inner.Host = &host
	return &inner
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
	if w.plain {
		c["helmDeployment"] = false
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

// setConfig changes the configuration of an item, and so gives it a new job.
func (w *world) setConfig(item *landscaper.DeployItem, config object) {
	w.Helper()
	w.SetConfig(item, config)
	plugintest.NewJob(item)
}

// mustDeploy changes the configuration of an item and carries the new job out.
func (w *world) mustDeploy(item *landscaper.DeployItem, config object) *sdktest.Result {
	w.Helper()
	w.setConfig(item, config)
	return w.MustSucceed(item)
}

// mustDoNothing carries out a new job without a write, also of the provider status.
func (w *world) mustDoNothing(item *landscaper.DeployItem) {
	w.Helper()
	w.Requests.Take()
	before := string(item.Status.ProviderStatus.Raw)
	plugintest.NewJob(item)
	w.MustSucceed(item)
	w.mustWriteNothing()
	if diff := cmp.Diff(before, string(item.Status.ProviderStatus.Raw)); diff != "" {
		w.Errorf("the provider status: -want +got:\n%s", diff)
	}
}

// mustWriteNothing expects no write since the last look at the requests.
func (w *world) mustWriteNothing() {
	w.Helper()
	if writes := w.Requests.Writes(); len(writes) > 0 {
		w.Errorf("expected no write, but found %v", writes)
	}
}

// createNamespace creates a namespace.
func (w *world) createNamespace(name string) {
	w.Helper()
	w.Create(namespaces, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}})
}

// call calls the deployer once.
func (w *world) call(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	return w.Do(plugintest.Reconcile, item)
}

// mustRefuse calls the deployer once, and expects a mistake of the user.
func (w *world) mustRefuse(item *landscaper.DeployItem, parts ...string) *sdktest.Result {
	w.Helper()
	result := w.call(item)
	w.MustFail(result, configProblem, parts...)
	return result
}

// mustWait checks that a job is in progress, and parts of what it waits for.
func (w *world) mustWait(result *sdktest.Result, parts ...string) {
	w.Helper()
	if result.InProgress == nil {
		w.Fatalf("expected a job in progress, but found: %s", result)
	}
	for _, part := range parts {
		if !strings.Contains(result.InProgress.WaitingFor, part) {
			w.Errorf("expected to wait for %q, but found %q", part, result.InProgress.WaitingFor)
		}
	}
}

// mustWarn checks parts of the first event with the reason, and returns its message.
func (w *world) mustWarn(result *sdktest.Result, reason string, parts ...string) string {
	w.Helper()
	for _, m := range result.Messages {
		if m.Event == nil || m.Event.Reason != reason {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(m.Event.Message, part) {
				w.Errorf("expected an event %s with %q, but found %q", reason, part, m.Event.Message)
			}
		}
		return m.Event.Message
	}
	w.Errorf("expected an event %s, but found %+v", reason, result.Messages)
	return ""
}

// stepsOf returns the messages of a step in the progress of a call; all steps' names for an empty name.
func (w *world) stepsOf(result *sdktest.Result, step string) (messages []string) {
	for _, m := range result.Messages {
		switch {
		case m.Progress == nil:
		case step == "":
			messages = append(messages, m.Progress.Step)
		case m.Progress.Step == step:
			messages = append(messages, m.Progress.Message)
		}
	}
	return messages
}

// mustTellDrift checks that the condition Drifted is true, and parts of its message.
func (w *world) mustTellDrift(result *sdktest.Result, parts ...string) {
	w.Helper()
	i := slices.IndexFunc(result.Conditions, func(c sdk.Condition) bool {
		return c.Type == managedresource.ConditionDrifted && c.Status == landscaper.ConditionTrue
	})
	if i < 0 {
		w.Errorf("expected the condition Drifted, but found %v", result.Conditions)
		return
	}
	for _, part := range parts {
		if !strings.Contains(result.Conditions[i].Message, part) {
			w.Errorf("expected the condition to name %q, but found %q", part, result.Conditions[i].Message)
		}
	}
}

// mustHide checks that no message of a call holds a text.
func (w *world) mustHide(result *sdktest.Result, texts ...string) {
	w.Helper()
	said := result.String()
	for _, m := range result.Messages {
		said += fmt.Sprintf("%+v %+v", m.Event, m.Progress)
	}
	for _, text := range texts {
		if strings.Contains(said, text) {
			w.Errorf("expected %q to be hidden, but found it in: %s", text, said)
		}
	}
}

// mustChange checks the changes of a preview, as "update ConfigMap %s/shop" with %s for the namespace.
func (w *world) mustChange(item *landscaper.DeployItem, want ...string) {
	w.Helper()
	changes, err := w.Plugin.Diff(w.Context(), w.CallOf(item))
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, strings.ReplaceAll(string(c.Action)+" "+c.Object, w.Namespace, "%s"))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("the changes: -want +got:\n%s", diff)
	}
}

// mustHave checks the revisions of the release, as "1 superseded". Without a release there are none in any case.
func (w *world) mustHave(revisions ...string) {
	w.Helper()
	if w.plain {
		revisions = nil
	}
	if diff := cmp.Diff(revisions, w.revisions("shop"), cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("the revisions: -want +got:\n%s", diff)
	}
}

// revisions returns those of a release.
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

// mustBeClean checks that the release is deployed, once, and that there is nothing left to do.
func (w *world) mustBeClean(item *landscaper.DeployItem) {
	w.Helper()
	revisions := w.revisions("shop")
	deployed := 0
	for _, r := range revisions {
		switch _, status, _ := strings.Cut(r, " "); status {
		case "deployed":
			deployed++
		case "superseded", "failed":
		default:
			w.Errorf("expected nothing in progress, but found %v", revisions)
		}
	}
	if deployed != 1 || !strings.HasSuffix(revisions[len(revisions)-1], "deployed") {
		w.Errorf("expected the newest revision to be the deployed one, but found %v", revisions)
	}
	before := w.Names(configMaps, "")
	w.mustDoNothing(item)
	w.mustHold(before...)
	if !slices.ContainsFunc(before, func(name string) bool { return strings.HasPrefix(name, "shop") }) {
		w.Errorf("expected the objects of the release, but found %v", before)
	}
}

// mustHold checks the names of the ConfigMaps on the target.
func (w *world) mustHold(names ...string) {
	w.Helper()
	if diff := cmp.Diff(names, w.Names(configMaps, ""), cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("the ConfigMaps: -want +got:\n%s", diff)
	}
}

// data returns that of a ConfigMap; nil if there is none.
func (w *world) data(name string) object {
	w.Helper()
	if o := w.Get(configMaps, name); o != nil {
		data, _ := o.Object["data"].(object)
		return data
	}
	return nil
}

// mustGreet checks the greeting of the chart plain; nil for none.
func (w *world) mustGreet(with any) {
	w.Helper()
	if got := w.data("shop-plain-greeting")["greeting"]; got != with {
		w.Errorf("expected the greeting %v, but found %v", with, got)
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

// mustManage checks the objects in the provider status, as "Kind name".
func (w *world) mustManage(item *landscaper.DeployItem, want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.managed(item)); diff != "" {
		w.Errorf("the provider status: -want +got:\n%s", diff)
	}
}

// managed returns the objects in the provider status, in order.
func (w *world) managed(item *landscaper.DeployItem) []string {
	w.Helper()
	var names []string
	for _, m := range w.Managed(item.Status.ProviderStatus.Raw) {
		names = append(names, m.Kind+" "+m.Name)
	}
	slices.Sort(names)
	return names
}

// orderLog has the requests to Helm.
type orderLog struct {
	mu  sync.Mutex
	all []helm.Request
}

// take returns the requests since the last look.
func (l *orderLog) take() []helm.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// listener is Helm with an orderLog.
type listener struct {
	helm.Helm

	orders *orderLog
}

func (l *listener) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	l.orders.mu.Lock()
	l.orders.all = append(l.orders.all, *req)
	l.orders.mu.Unlock()
	return l.Helm.Run(ctx, req, observer)
}
