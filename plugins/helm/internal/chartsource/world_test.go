package chartsource_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

const (
	user     = "somebody"
	password = "pa55-of-somebody"
	freshFor = time.Second
)

var (
	plain = charts.Pack("plain")
	other = charts.Pack("plain", charts.Version("9.9.9"))
)

// Answers that are not the chart plain, though they begin like it.
var (
	cut     = chartserver.Answer(http.StatusOK, plain[:10], "Content-Length", strconv.Itoa(len(plain)))
	corrupt = chartserver.Answer(http.StatusOK, append(plain[:len(plain)-1:len(plain)-1], plain[len(plain)-1]^0xff))
)

// world is a fetcher with a clock that stands still.
type world struct {
	*chartsource.Fetcher
	clock *clocktesting.FakeClock
	dir   string
}

// newWorld starts a fetcher that trusts the registries.
func newWorld(t *testing.T, registries ...*chartserver.Server) *world {
	t.Helper()
	var config chartsource.Config
	for _, r := range registries {
		config.Registries = append(config.Registries, fetch.Registry{Host: r.Host(), CAData: r.CA(), PlainHTTP: r.CA() == nil})
	}
	return newWorldWith(t, config)
}

func newWorldWith(t *testing.T, config chartsource.Config) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Unix(1e9, 0)), dir: t.TempDir()}
	config.Dir, config.Clock, config.FreshFor = w.dir, w.clock, freshFor
	if config.Helm == nil {
		config.Helm = reader{}
	}
	var err error
	if w.Fetcher, err = chartsource.New(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// reader reads indexes without a worker.
type reader struct{}

func (reader) Run(_ context.Context, req *helm.Request, _ helm.Observer) (*helm.Result, error) {
	listed, err := helm.ReadIndex(req.Chart.Path, req.Wanted)
	return &helm.Result{Listed: listed}, err
}

// parse returns the source of a chart.
func parse(t *testing.T, chart helmv1alpha1.Chart) chartsource.Source {
	t.Helper()
	source, errs := chartsource.Parse(chart, field.NewPath("chart"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return source
}

func ofRef(ref string) helmv1alpha1.Chart { return helmv1alpha1.Chart{Ref: ref} }

func ofRepository(url, name, version string) helmv1alpha1.Chart {
	return helmv1alpha1.Chart{HelmChartRepo: &helmv1alpha1.HelmChartRepo{HelmChartRepoURL: url, HelmChartName: name, HelmChartVersion: version}}
}

func ofURL(url string) helmv1alpha1.Chart {
	return helmv1alpha1.Chart{Archive: &helmv1alpha1.Archive{Remote: &helmv1alpha1.RemoteArchive{URL: url}}}
}

// fetch fetches a chart and returns its content.
func (w *world) fetch(t *testing.T, chart helmv1alpha1.Chart, credentials *sdk.Credentials) ([]byte, error) {
	t.Helper()
	archive, err := w.Fetch(t.Context(), &chartsource.Request{Source: parse(t, chart), Credentials: credentials})
	if err != nil {
		isSecretive(t, err.Error())
		return nil, err
	}
	defer archive.Release()
	content, err := os.ReadFile(archive.Path)
	if err != nil {
		t.Fatal(err)
	}
	if archive.Digest != digestOf(content) {
		t.Errorf("the archive is said to have the digest %s, but has %s", archive.Digest, digestOf(content))
	}
	return content, nil
}

// want is fetch for what must succeed with a certain content.
func (w *world) want(t *testing.T, chart helmv1alpha1.Chart, credentials *sdk.Credentials, want []byte) {
	t.Helper()
	content, err := w.fetch(t, chart, credentials)
	switch {
	case err != nil:
		t.Errorf("expected an archive, but found %v", err)
	case string(content) != string(want):
		t.Errorf("expected another archive: found %d bytes, not %d", len(content), len(want))
	}
}

// wantError is fetch for what must fail.
func (w *world) wantError(t *testing.T, chart helmv1alpha1.Chart, credentials *sdk.Credentials, reason string, code v1alpha1.ErrorCode, texts ...string) {
	t.Helper()
	_, err := w.fetch(t, chart, credentials)
	isError(t, err, reason, code, texts...)
}

func isError(t *testing.T, err error, reason string, code v1alpha1.ErrorCode, texts ...string) {
	t.Helper()
	var known *sdk.Error
	if !errors.As(err, &known) || known.Reason != reason || known.Operation != chartsource.Operation {
		t.Fatalf("expected an error with reason %s, but found %#v: %v", reason, known, err)
	}
	var want []v1alpha1.ErrorCode
	if code != "" {
		want = append(want, code)
	}
	if got := sdk.Codes(err); !slices.Equal(got, want) {
		t.Errorf("expected the codes %v, but found %v", want, got)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("expected %q in the error, but found: %v", text, err)
		}
	}
}

// isSecretive fails if a text for people has a secret in it.
func isSecretive(t *testing.T, text string) {
	t.Helper()
	encoded := strings.TrimPrefix(chartserver.BasicAuth(user, password), "Basic ")
	for _, secret := range []string{password, encoded, "signature"} {
		if strings.Contains(text, secret) {
			t.Errorf("a text for people has a secret in it: %s", text)
		}
	}
}

func loginFor(hosts ...string) *sdk.Credentials {
	c := &sdk.Credentials{}
	for _, host := range hosts {
		c.Registries = append(c.Registries, sdk.RegistryCredentials{Secret: "pull", DockerConfig: chartserver.DockerConfig(host, user, password)})
	}
	return c
}

// accessTo has user, password and authority for an address.
func accessTo(url string, ca []byte) *sdk.Credentials {
	return &sdk.Credentials{ChartRepositories: []sdk.ChartRepositoryCredentials{{URL: url, CAData: ca, AuthHeader: chartserver.BasicAuth(user, password)}}}
}

// trustIn has the authority for an address only.
func trustIn(url string, ca []byte) *sdk.Credentials {
	return &sdk.Credentials{ChartRepositories: []sdk.ChartRepositoryCredentials{{URL: url, CAData: ca}}}
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// later lets what was looked up become old.
func (w *world) later() { w.clock.Step(2 * freshFor) }

// wantRequests fails unless a server has got so many requests since it was asked last.
func wantRequests(t *testing.T, server *chartserver.Server, want int, why string) {
	t.Helper()
	if got := server.Requests(chartserver.Any); len(got) != want {
		t.Errorf("%s: expected %d requests, but found %v", why, want, got)
	}
	server.Forget()
}

func push(t *testing.T, registry *chartserver.Registry, repository, tag string, archive []byte) string {
	t.Helper()
	digest, err := registry.Push(repository, tag, archive)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func add(t *testing.T, repository *chartserver.Repository, archive []byte, changes ...func(*chartserver.Entry)) {
	t.Helper()
	if err := repository.Add(archive, changes...); err != nil {
		t.Fatal(err)
	}
}

// withContext fetches with a context of the caller's own.
func (w *world) withContext(ctx context.Context, source chartsource.Source) (*chartsource.Archive, error) {
	return w.Fetch(ctx, &chartsource.Request{Source: source})
}
