package chartsource_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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

// stallAfter is long enough for a busy machine.
const stallAfter = 3 * time.Second

type helmChart = helmv1alpha1.Chart

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
	return newWorldWith(t, chartsource.Config{Config: trusting(registries...)})
}

func trusting(registries ...*chartserver.Server) fetch.Config {
	config := fetch.Config{StallAfter: stallAfter}
	for _, r := range registries {
		config.Registries = append(config.Registries,
			fetch.Registry{Host: r.Host(), CAData: r.CA(), PlainHTTP: r.CA() == nil})
	}
	return config
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
	return readIndex(req)
}

func readIndex(req *helm.Request) (*helm.Result, error) {
	listed, err := helm.ReadIndex(req.Chart.Path, req.Wanted)
	return &helm.Result{Listed: listed}, err
}

// parse returns the source of a chart.
func parse(t *testing.T, chart helmChart) chartsource.Source {
	t.Helper()
	source, errs := chartsource.Parse(chart, field.NewPath("chart"))
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return source
}

func ofRef(ref string) helmChart { return helmChart{Ref: ref} }

func ofRepository(url, name, version string) helmChart {
	return helmChart{HelmChartRepo: &helmv1alpha1.HelmChartRepo{
		HelmChartRepoURL: url, HelmChartName: name, HelmChartVersion: version,
	}}
}

func ofURL(url string) helmChart {
	return helmChart{Archive: &helmv1alpha1.Archive{Remote: &helmv1alpha1.RemoteArchive{URL: url}}}
}

// ask is a request for a chart.
func ask(t *testing.T, chart helmChart, credentials *sdk.Credentials) chartsource.Request {
	t.Helper()
	return chartsource.Request{Source: parse(t, chart), Credentials: credentials}
}

// get fetches a chart and returns its content.
func (w *world) get(t *testing.T, req chartsource.Request) ([]byte, error) {
	t.Helper()
	archive, err := w.Fetch(t.Context(), &req)
	if err != nil {
		isSecretive(t, err.Error())
		return nil, err
	}
	defer archive.Release()
	content, err := os.ReadFile(archive.Path)
	if err != nil || archive.Digest != digestOf(content) {
		t.Errorf("the archive is said to have the digest %s, but has %s, error: %v", archive.Digest, digestOf(content), err)
	}
	if req.Context != nil && (archive.Resource == nil || archive.Resource.Component != shop) {
		t.Errorf("expected the resource that the chart is, but found %v", archive.Resource)
	}
	return content, nil
}

// wants fails unless a request gets a chart.
func (w *world) wants(t *testing.T, req chartsource.Request, want []byte) {
	t.Helper()
	if content, err := w.get(t, req); err != nil || string(content) != string(want) {
		t.Errorf("expected an archive of %d bytes, but found %d bytes and %v", len(want), len(content), err)
	}
}

func (w *world) want(t *testing.T, chart helmChart, credentials *sdk.Credentials, want []byte) {
	t.Helper()
	w.wants(t, ask(t, chart, credentials), want)
}

// refuses fails unless a request fails with a reason and its code.
func (w *world) refuses(t *testing.T, req chartsource.Request, reason string, texts ...string) {
	t.Helper()
	_, err := w.get(t, req)
	isError(t, err, reason, codes[reason], texts...)
}

func (w *world) wantError(
	t *testing.T, chart helmChart, credentials *sdk.Credentials, reason string, texts ...string,
) {
	t.Helper()
	w.refuses(t, ask(t, chart, credentials), reason, texts...)
}

// codes of the reasons; without one the job is tried again.
var codes = map[string]v1alpha1.ErrorCode{
	chartsource.ReasonArchiveInvalid:     v1alpha1.ErrorConfigurationProblem,
	chartsource.ReasonComponentInvalid:   v1alpha1.ErrorConfigurationProblem,
	chartsource.ReasonCredentialsMissing: v1alpha1.ErrorConfigurationProblem,
	chartsource.ReasonDigestMismatch:     v1alpha1.ErrorConfigurationProblem,
	chartsource.ReasonResolverMissing:    v1alpha1.ErrorConfigurationProblem,
	chartsource.ReasonSourceInvalid:      v1alpha1.ErrorConfigurationProblem,
	chartsource.ReasonTooLarge:           v1alpha1.ErrorConfigurationProblem,
	chartsource.ReasonUnauthorized:       v1alpha1.ErrorUnauthorized,
}

func isError(t *testing.T, err error, reason string, code v1alpha1.ErrorCode, texts ...string) {
	t.Helper()
	known, ok := errors.AsType[*sdk.Error](err)
	if !ok || known.Reason != reason || known.Operation != chartsource.Operation {
		t.Fatalf("expected an error with reason %s, but found %#v: %v", reason, known, err)
	}
	if got := sdk.Codes(err); len(got) > 1 || code != "" && !slices.Contains(got, code) || code == "" && len(got) > 0 {
		t.Errorf("expected the code %q, but found %v", code, got)
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
		c.Registries = append(c.Registries,
			sdk.RegistryCredentials{Secret: "pull", DockerConfig: chartserver.DockerConfig(host, user, password)})
	}
	return c
}

// unusable is a login that cannot be read.
var unusable = sdk.RegistryCredentials{Secret: "pull", Problem: "there is no such Secret"}

func loginsOf(logins ...sdk.RegistryCredentials) *sdk.Credentials {
	return &sdk.Credentials{Registries: logins}
}

func withDockerConfig(document string, more ...sdk.RegistryCredentials) *sdk.Credentials {
	first := sdk.RegistryCredentials{Secret: "pull", DockerConfig: []byte(document)}
	return loginsOf(append([]sdk.RegistryCredentials{first}, more...)...)
}

// wrongLogin is refused by a registry.
func wrongLogin(host string, more ...sdk.RegistryCredentials) *sdk.Credentials {
	return withDockerConfig(fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": "x"}}}`, host, user), more...)
}

// trustIn has the authorities of servers only.
func trustIn(servers ...*chartserver.Server) *sdk.Credentials {
	c := &sdk.Credentials{}
	for _, s := range servers {
		c.ChartRepositories = append(c.ChartRepositories, sdk.ChartRepositoryCredentials{URL: s.URL(), CAData: s.CA()})
	}
	return c
}

// accessTo has user, password and authority for the first server, and the authorities of the others.
func accessTo(servers ...*chartserver.Server) *sdk.Credentials {
	c := trustIn(servers...)
	c.ChartRepositories[0].AuthHeader = chartserver.BasicAuth(user, password)
	return c
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

// registryWith has the chart charts/plain 1.0.0, by its digest, too.
func registryWith(
	t *testing.T, o chartserver.Options,
) (r *chartserver.Registry, tagged helmChart, digest string) {
	t.Helper()
	r = chartserver.StartRegistry(t, o)
	digest = push(t, r, "charts/plain", "1.0.0", plain)
	return r, ofRef(r.Ref("charts/plain", "1.0.0")), digest
}

// repositoryWith has the chart plain.
func repositoryWith(t *testing.T, o chartserver.Options) (*chartserver.Repository, helmChart) {
	t.Helper()
	r := chartserver.StartRepository(t, o)
	add(t, r, plain)
	return r, ofRepository(r.URL(), "plain", "")
}

// fetch fetches a chart with a context of the caller's own.
func (w *world) fetch(ctx context.Context, chart helmChart) (*chartsource.Archive, error) {
	source, errs := chartsource.Parse(chart, field.NewPath("chart"))
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return w.Fetch(ctx, &chartsource.Request{Source: source})
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// aborted is a context for a caller that leaves with errAborted.
func aborted(t *testing.T) (ctx context.Context, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	return ctx, func() { cancel(errAborted) }
}

// errAborted is why a caller leaves.
var errAborted = errors.New("aborted")

// withLogin are the options of a server that asks for a login.
var withLogin = chartserver.Options{Auth: chartserver.Basic, User: user, Password: password}
