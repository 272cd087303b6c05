package chartsource_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	inPath := withLogin
	inPath.Path = "/charts/stable"
	for name, test := range map[string]struct {
		options chartserver.Options
		access  func(...*chartserver.Server) *sdk.Credentials
	}{
		"a public repository of a private authority": {chartserver.Options{}, trustIn},
		"an address may be of http":                  {chartserver.Options{PlainHTTP: true}, trustIn},
		"user and password in a header":              {withLogin, accessTo},
		"credentials are for all below their address": {inPath, func(servers ...*chartserver.Server) *sdk.Credentials {
			url, c := servers[0].URL(), accessTo(servers...)
			c.ChartRepositories[0].URL = strings.TrimSuffix(url, "/stable")
			c.ChartRepositories = append(c.ChartRepositories,
				sdk.ChartRepositoryCredentials{URL: strings.TrimSuffix(url, "/charts/stable"), AuthHeader: "Basic wrong"},
				sdk.ChartRepositoryCredentials{URL: url + "-not", AuthHeader: "Basic wrong", Problem: "broken"})
			return c
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repository, _ := repositoryWith(t, test.options)
			add(t, repository, other, chartserver.At(repository.Put("other.tgz", other)))
			w := newWorld(t)
			credentials := test.access(repository.Server)
			for _, url := range []string{repository.URL(), repository.URL() + "/"} {
				w.want(t, ofRepository(url, "plain", "<9"), credentials, plain)
				w.want(t, ofRepository(url, "plain", ""), credentials, other)
				w.want(t, ofRepository(url, "plain", "9.9.9"), credentials, other)
			}
		})
	}
}

func TestRepositoryErrors(t *testing.T) {
	t.Parallel()
	repository, _ := repositoryWith(t, chartserver.Options{})
	digest := func(digest string) func(*chartserver.Entry) {
		return func(e *chartserver.Entry) { e.Digest = digest }
	}
	const notFound, invalid = chartsource.ReasonNotFound, chartsource.ReasonArchiveInvalid
	for name, test := range map[string]struct {
		entry         func(*chartserver.Entry)
		version, want string
		text          string
	}{
		"nothing":      {nil, "", notFound, "no chart of this name"},
		"plain":        {nil, ">99", notFound, `none for ">99"`},
		"missing":      {chartserver.At("nowhere.tgz"), "", notFound, "nowhere.tgz"},
		"wrong-digest": {digest(strings.Repeat("0", 64)), "", chartsource.ReasonDigestMismatch, "sha256:000"},
		"odd-digest":   {digest("md5"), "", invalid, "SHA-256"},
		"no-address":   {chartserver.At(), "", invalid, "no address"},
		"user-address": {chartserver.At("https://user:" + password + "@127.0.0.1:1/x.tgz"), "", invalid, "without a user"},
		"bad-oci":      {chartserver.At("oci://nothing"), "", invalid, "invalid reference"},
	} {
		if test.entry != nil {
			add(t, repository, charts.Pack("plain", charts.Name(name)), test.entry)
		}
		t.Run(name, func(t *testing.T) {
			newWorld(t).wantError(t, ofRepository(repository.URL(), name, test.version), trustIn(repository.Server),
				test.want, test.text, name)
		})
	}
}

func TestRepositoryRefuses(t *testing.T) {
	t.Parallel()
	repository, chart := repositoryWith(t, withLogin)
	w := newWorld(t)
	w.wantError(t, chart, nil, chartsource.ReasonUnavailable, "not trusted", "customCAData")
	w.wantError(t, chart, trustIn(repository.Server), chartsource.ReasonCredentialsMissing,
		"helmChartRepoCredentials", repository.Host())
	for _, test := range []struct {
		change       func(*sdk.ChartRepositoryCredentials)
		reason, text string
	}{
		{
			func(c *sdk.ChartRepositoryCredentials) { c.AuthHeader = "Basic " + password },
			chartsource.ReasonUnauthorized, "",
		},
		{
			func(c *sdk.ChartRepositoryCredentials) { c.Problem = `Secret "auth": there is none` },
			chartsource.ReasonCredentialsInvalid, `Secret "auth": there is none`,
		},
		{
			func(c *sdk.ChartRepositoryCredentials) { c.CAData = []byte("none") },
			chartsource.ReasonCredentialsInvalid, "certificates in PEM",
		},
	} {
		credentials := accessTo(repository.Server)
		test.change(&credentials.ChartRepositories[0])
		w.wantError(t, chart, credentials, test.reason, test.text)
	}
	w.want(t, chart, accessTo(repository.Server), plain)
}

// TestRepositoryLeaksNothing: a repository that names archives of other servers does not have them told its
// credentials.
func TestRepositoryLeaksNothing(t *testing.T) {
	t.Parallel()
	options := withLogin
	options.Path = "/private"
	repository := chartserver.StartRepository(t, options)
	chart := ofRepository(repository.URL(), "plain", "")
	elsewhere := chartserver.StartFiles(t, chartserver.Options{})
	add(t, repository, plain, chartserver.At(elsewhere.Put("plain.tgz", plain)+"?signature=x"))
	add(t, repository, charts.Pack("plain", charts.Name("above")), chartserver.At("/plain.tgz"))
	both := accessTo(repository.Server, elsewhere.Server)

	t.Run("Elsewhere", func(t *testing.T) {
		elsewhere.Forget()
		newWorld(t).want(t, chart, both, plain)
		if got := elsewhere.WithCredentials(); len(got) > 0 || elsewhere.Count(chartserver.Any) != 1 {
			t.Errorf("expected one request without credentials, but found %v", elsewhere.Requests(chartserver.Any))
		}
	})
	t.Run("AuthorityElsewhere", func(t *testing.T) {
		newWorld(t).wantError(t, chart, accessTo(repository.Server), chartsource.ReasonUnavailable,
			"not trusted", elsewhere.URL())
	})
	t.Run("ElsewhereWithItsOwn", func(t *testing.T) {
		elsewhere.Forget()
		own := accessTo(repository.Server, elsewhere.Server)
		own.ChartRepositories[1].AuthHeader = "Bearer own"
		newWorld(t).want(t, chart, own, plain)
		for _, r := range elsewhere.Requests(chartserver.Any) {
			if got := r.Header.Get("Authorization"); got != "Bearer own" {
				t.Errorf("expected its own credentials elsewhere, but found %q", got)
			}
		}
	})
	t.Run("SameServer", func(t *testing.T) {
		repository.Forget()
		newWorld(t).wantError(t, ofRepository(repository.URL(), "above", ""), both, chartsource.ReasonNotFound)
		if got := repository.WithCredentials(); len(got) != 2 {
			t.Errorf("expected credentials for a chart of the same server, but found %v", got)
		}
	})
}

// TestRepositoryAddresses: the archive may be in a registry, and any of several addresses will do.
func TestRepositoryAddresses(t *testing.T) {
	t.Parallel()
	repository := chartserver.StartRepository(t, chartserver.Options{})
	registry, tagged, _ := registryWith(t, withLogin)
	push(t, registry, "charts/plain", "wrong", other)
	credentials := trustIn(repository.Server)
	credentials.Registries = loginFor(registry.Host()).Registries
	w := newWorld(t, registry.Server)
	oci := "oci://" + tagged.Ref
	for _, test := range []struct {
		reason string // of an error
		urls   []string
	}{
		{"", []string{oci}},
		{"", []string{"http://127.0.0.1:1/nobody.tgz", "nowhere.tgz", "ftp://x", oci}},
		{chartsource.ReasonDigestMismatch, []string{"oci://" + registry.Ref("charts/plain", "wrong")}},
		// What may change by itself decides, whatever else there is.
		{chartsource.ReasonNotFound, []string{"ftp://x", "nowhere.tgz", "ftp://y"}},
	} {
		add(t, repository, plain, chartserver.At(test.urls...))
		w.later()
		chart := ofRepository(repository.URL(), "plain", "")
		if test.reason == "" {
			w.want(t, chart, credentials, plain)
		} else {
			w.wantError(t, chart, credentials, test.reason)
		}
	}
}

// isConditional says whether a request asks only for what has changed.
func isConditional(r chartserver.Request) bool { return r.Header.Get("If-None-Match") != "" }

// failing is a worker that fails at each index, and counts them.
type failing struct {
	err  error
	runs int
}

func (f *failing) Run(_ context.Context, req *helm.Request, _ helm.Observer) (*helm.Result, error) {
	if f.runs++; f.err != nil {
		return nil, f.err
	}
	return readIndex(req)
}

// TestRepositoryIndex: a worker reads an index once for all jobs with the same wish, and within its limits.
func TestRepositoryIndex(t *testing.T) {
	t.Parallel()
	repository, chart := repositoryWith(t, chartserver.Options{})
	credentials := trustIn(repository.Server)
	worker := &failing{}
	w := newWorldWith(t, chartsource.Config{Helm: worker})
	for kind, want := range map[helm.Kind]string{
		helm.ChartInvalid: chartsource.ReasonArchiveInvalid, helm.LimitExceeded: chartsource.ReasonTooLarge,
		helm.Crashed: chartsource.ReasonUnavailable,
	} {
		worker.err = &helm.Error{Kind: kind, Message: "its end"}
		w.wantError(t, chart, credentials, want, "the index of chart repository", "its end")
	}
	worker.err, worker.runs = nil, 0
	wants := func(chart helmChart, want []byte, requests, runs int, why string) {
		t.Helper()
		repository.Forget()
		w.want(t, chart, credentials, want)
		if got := repository.Requests(chartserver.Any); len(got) != requests || worker.runs != runs {
			t.Errorf("%s: expected %d requests and %d readings, but found %v and %d", why, requests, runs, got, worker.runs)
		}
	}
	wants(chart, plain, 1, 1, "an index that was looked up just now, and an archive")
	wants(chart, plain, 0, 1, "both were looked up just now")
	w.later()
	wants(chart, plain, 1, 1, "an index that has not changed")
	if got := repository.Requests(chartserver.Any); len(got) != 1 || !isConditional(got[0]) {
		t.Errorf("expected to be asked for what has changed, but found %v", got)
	}
	wants(ofRepository(repository.URL(), "plain", "<9"), plain, 0, 2, "another wish")
	add(t, repository, other)
	w.later()
	wants(chart, other, 2, 3, "a new version")
}
