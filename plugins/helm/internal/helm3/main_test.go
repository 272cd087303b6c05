package helm3_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// cluster is the API server that all tests of this package share; nil while fuzzing.
var cluster *rest.Config

func TestMain(m *testing.M) {
	os.Exit(testenv.RunOnAPIServer(m, func(e *envtest.Environment) { cluster = e.Config }))
}

type fields = map[string]any

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	jobs       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

// world is what one test plays in: a release in a namespace of its own.
type world struct {
	*testing.T

	namespace  string
	admin      dynamic.Interface
	requests   *requestLog
	client     *helm3.Client
	kubeconfig []byte
	audience   *audience
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, requests: &requestLog{}, audience: &audience{}, kubeconfig: kubeconfig(t, nil)}
	var err error
	if w.admin, err = dynamic.NewForConfig(cluster); err != nil {
		t.Fatal(err)
	}
	w.client = helm3.New(helm3.WrapTransport(w.requests.wrap))
	ns, err := w.admin.Resource(namespaces).Create(t.Context(), &unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": "Namespace", "metadata": fields{"generateName": "test-"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.namespace = ns.GetName()
	return w
}

// kubeconfig returns one for the cluster, after it was changed.
func kubeconfig(t *testing.T, change func(*clientcmdapi.Config)) []byte {
	t.Helper()
	config := clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: cluster.Host, CertificateAuthorityData: cluster.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {
			ClientCertificateData: cluster.CertData, ClientKeyData: cluster.KeyData, Token: cluster.BearerToken,
		}},
	}
	if change != nil {
		change(&config)
	}
	content, err := clientcmd.Write(config)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// request is an install of a chart as the release "shop".
func (w *world) request(chart []byte, values fields) *helm.Request {
	w.Helper()
	r := request(w.T, chart, values)
	r.Kubeconfig, r.Release.Namespace = w.kubeconfig, w.namespace
	return r
}

// request is one without a cluster.
func request(t *testing.T, chart []byte, values fields) *helm.Request {
	t.Helper()
	file := filepath.Join(t.TempDir(), "chart.tgz")
	if err := os.WriteFile(file, chart, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &helm.Request{
		Action: helm.Install, Release: helm.Release{Namespace: "ns", Name: "shop"}, Chart: helm.Chart{Path: file}, MaxHistory: 10,
		Labels:  map[string]string{"pergola.dev/deployitem": "some.item"},
		Options: helm.Options{Timeout: time.Minute},
		Limits: helm.Limits{
			UnpackedBytes: 20 << 20, Files: 1000, Depth: 5, RenderedBytes: 20 << 20, RenderTime: time.Minute, MemoryBytes: 1 << 30,
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

// run carries a request out with an observer that replaces nothing.
func (w *world) run(r *helm.Request) (*helm.Result, error) {
	w.Helper()
	return w.client.Run(w.Context(), r, w.audience)
}

func (w *world) mustRun(r *helm.Request) *helm.Result {
	w.Helper()
	result, err := w.run(r)
	if err != nil {
		w.Fatalf("%s: %v\n%s", r.Action, err, strings.Join(asError(w.T, err).Log, "\n"))
	}
	return result
}

// mustFail checks an error: its kind and parts of its message.
func (w *world) mustFail(r *helm.Request, kind helm.Kind, parts ...string) *helm.Error {
	w.Helper()
	_, err := w.run(r)
	return mustBe(w.T, err, kind, parts...)
}

func mustBe(t *testing.T, err error, kind helm.Kind, parts ...string) *helm.Error {
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

func asError(t *testing.T, err error) *helm.Error {
	t.Helper()
	var known *helm.Error
	if !errors.As(err, &known) {
		t.Fatalf("expected an error of package helm, but found %v", err)
	}
	return known
}

// get returns an object of the release's namespace; nil if it does not exist.
func (w *world) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.Helper()
	o, err := w.admin.Resource(resource).Namespace(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		if strings.Contains(err.Error(), "not found") {
			return nil
		}
		w.Fatal(err)
	}
	return o
}

func (w *world) create(resource schema.GroupVersionResource, o fields) {
	w.Helper()
	_, err := w.admin.Resource(resource).Namespace(w.namespace).Create(w.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

// history returns the statuses of the release's revisions, oldest first, such as "1:superseded", as the ordinary library reads them.
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
	client, err := corev1client.NewForConfig(cluster)
	if err != nil {
		w.Fatal(err)
	}
	all, err := driver.NewSecrets(client.Secrets(w.namespace)).Query(map[string]string{"owner": "helm", "name": "shop"})
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

// eventually waits for what others do.
func (w *world) eventually(what string, done func() bool) {
	w.Helper()
	await.That(w, 30*time.Second, what, done)
}

// audience is an observer that keeps what it hears, and replaces objects if it is told to.
type audience struct {
	replace func(context.Context, []helm.Object) ([]helm.Object, error)

	mu       sync.Mutex
	objects  []helm.Object
	progress []string
	log      []string
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

func (a *audience) Progress(step, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = append(a.progress, step+": "+message)
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

// requestLog notes the requests to the cluster, and may keep them from getting there.
type requestLog struct {
	mu  sync.Mutex
	all []string
	// before is called with each request, and after with those that were answered.
	before, after func(*http.Request) error
}

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.mu.Lock()
		entry := r.Method + " " + r.URL.Path
		if r.URL.Query().Get("watch") != "" {
			entry = "WATCH " + r.URL.Path
		}
		l.all = append(l.all, entry)
		before, after := l.before, l.after
		l.mu.Unlock()
		if before != nil {
			if err := before(r); err != nil {
				return nil, err
			}
		}
		res, err := next.RoundTrip(r)
		if err == nil && after != nil {
			if err := after(r); err != nil {
				_ = res.Body.Close()
				return nil, err
			}
		}
		return res, err
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

func (l *requestLog) intercept(before, after func(*http.Request) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before, l.after = before, after
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var plain = charts.Pack("plain")
