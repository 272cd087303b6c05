package helm3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

type fields = map[string]any

var configMaps, secrets, jobs = plugintest.ConfigMaps, plugintest.Secrets, plugintest.Jobs

// world is what one test plays in: a release in a namespace of its own.
type world struct {
	*plugintest.World

	client     *helm3.Client
	kubeconfig []byte
	audience   *audience
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: plugintest.New(t), audience: &audience{}}
	w.client, w.kubeconfig = helm3.New(w.Requests.Wrap), w.Kubeconfig(plugintest.Config())
	return w
}

// changed returns the kubeconfig of the world after it was changed.
func (w *world) changed(change func(*clientcmdapi.Config)) []byte {
	w.Helper()
	config, err := clientcmd.Load(w.kubeconfig)
	if err != nil {
		w.Fatal(err)
	}
	change(config)
	content, err := clientcmd.Write(*config)
	if err != nil {
		w.Fatal(err)
	}
	return content
}

// request is an install of a chart as the release "shop".
func (w *world) request(chart []byte, values fields) *helm.Request {
	w.Helper()
	r := request(w.TB, chart, values)
	r.Kubeconfig, r.Release.Namespace = w.kubeconfig, w.Namespace
	return r
}

// request is one without a cluster.
func request(t testing.TB, chart []byte, values fields) *helm.Request {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chart.tgz")
	if err := os.WriteFile(file, chart, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &helm.Request{
		Action: helm.Install, Release: helm.Release{Namespace: "ns", Name: "shop"}, Chart: helm.Chart{Path: file},
		MaxHistory: 10,
		Labels:     map[string]string{"pergola.dev/deployitem": "some.item"},
		Options:    helm.Options{Timeout: time.Minute},
		Limits: helm.Limits{
			UnpackedBytes: 20 << 20, Files: 1000, Depth: 5, RenderedBytes: 20 << 20,
			RenderTime: time.Minute, MemoryBytes: 1 << 30,
		},
	}
	if values != nil {
		content, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		r.Values = content
	}
	return r
}

// uninstall is a request to remove the release.
func (w *world) uninstall() *helm.Request {
	w.Helper()
	r := w.request(nil, nil)
	r.Action = helm.Uninstall
	return r
}

// mustNotWrite checks that the requests since the last look have written nothing.
func (w *world) mustNotWrite() {
	w.Helper()
	for _, request := range w.Requests.Take() {
		if plugintest.IsWrite(request) && !strings.Contains(request, "customresourcedefinitions") {
			w.Errorf("expected no write, but found %s", request)
		}
	}
}

// run carries a request out with an observer that replaces nothing.
func (w *world) run(r *helm.Request) (*helm.Result, error) {
	w.Helper()
	return w.client.Run(w.Context(), r, w.audience)
}

func (w *world) mustRun(r *helm.Request) *helm.Result {
	w.Helper()
	result, err := w.run(r)
	if err != nil {
		w.Fatalf("%s: %v", r.Action, err)
	}
	return result
}

// mustFail checks an error: its kind and parts of its message.
func (w *world) mustFail(r *helm.Request, kind helm.Kind, parts ...string) *helm.Error {
	w.Helper()
	_, err := w.run(r)
	return mustBe(w.TB, err, kind, parts...)
}

func mustBe(t testing.TB, err error, kind helm.Kind, parts ...string) *helm.Error {
	t.Helper()
	known := asError(t, err)
	if known.Kind != kind {
		t.Errorf("expected the kind %s, but found %s: %s", kind, known.Kind, known.Message)
	}
	for _, part := range parts {
		if !strings.Contains(known.Message, part) {
			t.Errorf("expected %q, but found: %s", part, known.Message)
		}
	}
	return known
}

func asError(t testing.TB, err error) *helm.Error {
	t.Helper()
	var known *helm.Error
	if !errors.As(err, &known) {
		t.Fatalf("expected an error of package helm, but found %v", err)
	}
	return known
}

// history returns the statuses of the release's revisions, oldest first, such as "1:superseded", as the ordinary
// library reads them.
func (w *world) history() []string {
	w.Helper()
	var all []string
	for _, rel := range w.releases() {
		all = append(all, fmt.Sprintf("%d:%s", rel.Version, rel.Info.Status))
	}
	return all
}

func (w *world) releases() []*release.Release {
	w.Helper()
	client, err := corev1client.NewForConfig(plugintest.Config())
	if err != nil {
		w.Fatal(err)
	}
	all, err := driver.NewSecrets(client.Secrets(w.Namespace)).Query(map[string]string{"owner": "helm", "name": "shop"})
	if err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		w.Fatal(err)
	}
	releaseutil.SortByRevision(all)
	return all
}

func (w *world) mustHave(want ...string) {
	w.Helper()
	if got := w.history(); !slices.Equal(got, want) {
		w.Errorf("expected the revisions %v, but found %v", want, got)
	}
}

// audience is an observer that keeps what it hears, and replaces objects if it is told to.
type audience struct {
	changing func(context.Context) error
	replace  func(context.Context, []helm.Object) ([]helm.Object, error)

	mu       sync.Mutex
	objects  []helm.Object
	found    []helm.Found
	progress []string
	warnings []string
	log      []string
}

func (a *audience) Changing(ctx context.Context) error {
	if a.changing != nil {
		return a.changing(ctx)
	}
	return nil
}

func (a *audience) Rendered(ctx context.Context, objects []helm.Object) ([]helm.Object, error) {
	a.mu.Lock()
	a.objects = objects
	a.mu.Unlock()
	if a.replace != nil {
		return a.replace(ctx, objects)
	}
	return objects, nil
}

func (a *audience) Found(_ context.Context, found []helm.Found) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.found = append(a.found, found...)
	return nil
}

// hears returns what it heard about found objects since it was called last, such as "Left precious ns/b".
func (a *audience) hears() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, f := range a.found {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Fate, f.Key.Name, f.Of.Item+f.Of.Release.Name)))
	}
	a.found = nil
	slices.Sort(all)
	return all
}

func (a *audience) Progress(step, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = append(a.progress, step+": "+message)
}

func (a *audience) Warning(reason, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = append(a.warnings, reason+": "+message)
}

func (a *audience) Log(line string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, line)
}

// steps returns the progress since it was called last.
func (a *audience) steps() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	steps := a.progress
	a.progress = nil
	return steps
}

var plain = charts.Pack("plain")
