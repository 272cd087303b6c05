package chartsource_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		options chartserver.Options
		// ask makes the credentials for the address of the repository.
		ask func(url string, ca []byte) *sdk.Credentials
	}{
		"Anybody":   {reason: "a public repository of a private authority", ask: trustIn},
		"PlainHTTP": {reason: "an address may be of http", options: chartserver.Options{PlainHTTP: true}, ask: trustIn},
		"Basic":     {reason: "user and password in a header", options: chartserver.Options{Auth: chartserver.Basic, User: user, Password: password}, ask: accessTo},
		"Path": {
			reason:  "credentials are for all below their address",
			options: chartserver.Options{Auth: chartserver.Basic, User: user, Password: password, Path: "/charts/stable"},
			ask: func(url string, ca []byte) *sdk.Credentials {
				c := accessTo(strings.TrimSuffix(url, "/stable"), ca)
				c.ChartRepositories = append(c.ChartRepositories,
					sdk.ChartRepositoryCredentials{URL: strings.TrimSuffix(url, "/charts/stable"), AuthHeader: "Basic wrong"},
					sdk.ChartRepositoryCredentials{URL: url + "-not", AuthHeader: "Basic wrong", Problem: "broken"})
				return c
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repository := chartserver.StartRepository(t, test.options)
			add(t, repository, plain)
			add(t, repository, other, chartserver.At(repository.Put("other.tgz", other)))
			w := newWorld(t)
			credentials := test.ask(repository.URL(), repository.CA())
			for _, url := range []string{repository.URL(), repository.URL() + "/"} {
				w.want(t, ofRepository(url, "plain", "<9"), credentials, plain)
				w.want(t, ofRepository(url, "plain", ""), credentials, other)
				w.want(t, ofRepository(url, "plain", "9.9.9"), credentials, other)
			}
			if t.Failed() {
				t.Log(test.reason)
			}
		})
	}
}

func TestRepositoryErrors(t *testing.T) {
	t.Parallel()
	repository := chartserver.StartRepository(t, chartserver.Options{})
	add(t, repository, plain)
	add(t, repository, charts.Pack("plain", charts.Name("wrong-digest")), func(e *chartserver.Entry) { e.Digest = strings.Repeat("0", 64) })
	add(t, repository, charts.Pack("plain", charts.Name("odd-digest")), func(e *chartserver.Entry) { e.Digest = "md5" })
	add(t, repository, charts.Pack("plain", charts.Name("missing")), chartserver.At("nowhere.tgz"))
	add(t, repository, charts.Pack("plain", charts.Name("no-address")), chartserver.At())
	add(t, repository, charts.Pack("plain", charts.Name("user-address")), chartserver.At("https://user:"+password+"@127.0.0.1:1/x.tgz"))
	add(t, repository, charts.Pack("plain", charts.Name("bad-oci")), chartserver.At("oci://nothing"))
	tests := map[string]struct {
		reason, chart, version, want string
		code                         v1alpha1.ErrorCode
		text                         string
	}{
		"NoChart":     {"it may be published later", "nothing", "", chartsource.ReasonNotFound, "", "no chart of this name"},
		"NoVersion":   {"it may be published later", "plain", ">99", chartsource.ReasonNotFound, "", "none for \">99\""},
		"NoArchive":   {"it may be published later", "missing", "", chartsource.ReasonNotFound, "", "nowhere.tgz"},
		"WrongDigest": {"the archive is not the one of the index", "wrong-digest", "", chartsource.ReasonDigestMismatch, v1alpha1.ErrorConfigurationProblem, "sha256:000"},
		"OddDigest":   {"it is none", "odd-digest", "", chartsource.ReasonArchiveInvalid, v1alpha1.ErrorConfigurationProblem, "SHA-256"},
		"NoAddress":   {"nothing to download", "no-address", "", chartsource.ReasonArchiveInvalid, v1alpha1.ErrorConfigurationProblem, "no address"},
		"User":        {"secrets in addresses get into messages", "user-address", "", chartsource.ReasonArchiveInvalid, v1alpha1.ErrorConfigurationProblem, "without a user"},
		"OCI":         {"it is none", "bad-oci", "", chartsource.ReasonArchiveInvalid, v1alpha1.ErrorConfigurationProblem, "invalid reference"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWorld(t).wantError(t, ofRepository(repository.URL(), test.chart, test.version), trustIn(repository.URL(), repository.CA()),
				test.want, test.code, test.text, test.chart)
			if t.Failed() {
				t.Log(test.reason)
			}
		})
	}
}

func TestRepositoryRefuses(t *testing.T) {
	t.Parallel()
	repository := chartserver.StartRepository(t, chartserver.Options{Auth: chartserver.Basic, User: user, Password: password})
	add(t, repository, plain)
	chart := ofRepository(repository.URL(), "plain", "")
	w := newWorld(t)
	change := func(change func(*sdk.ChartRepositoryCredentials)) *sdk.Credentials {
		c := accessTo(repository.URL(), repository.CA())
		change(&c.ChartRepositories[0])
		return c
	}
	w.wantError(t, chart, nil, chartsource.ReasonUnavailable, "", "not trusted", "customCAData")
	w.wantError(t, chart, trustIn(repository.URL(), repository.CA()), chartsource.ReasonCredentialsMissing, v1alpha1.ErrorConfigurationProblem,
		"helmChartRepoCredentials", repository.Host())
	w.wantError(t, chart, change(func(c *sdk.ChartRepositoryCredentials) { c.AuthHeader = "Basic " + password }),
		chartsource.ReasonUnauthorized, v1alpha1.ErrorUnauthorized)
	w.wantError(t, chart, change(func(c *sdk.ChartRepositoryCredentials) { c.Problem = "Secret \"auth\": there is none" }),
		chartsource.ReasonCredentialsInvalid, "", "Secret \"auth\": there is none")
	w.wantError(t, chart, change(func(c *sdk.ChartRepositoryCredentials) { c.CAData = []byte("none") }),
		chartsource.ReasonCredentialsInvalid, "", "certificates in PEM")
	w.want(t, chart, change(func(*sdk.ChartRepositoryCredentials) {}), plain)
}

// TestRepositoryLeaksNothing: a repository that names archives of other servers does not have them told its
// credentials.
func TestRepositoryLeaksNothing(t *testing.T) {
	t.Parallel()
	repository := chartserver.StartRepository(t, chartserver.Options{Auth: chartserver.Basic, User: user, Password: password, Path: "/private"})
	elsewhere := chartserver.StartFiles(t, chartserver.Options{})
	url := elsewhere.Put("plain.tgz", plain)
	add(t, repository, plain, chartserver.At(url+"?signature=x"))
	add(t, repository, charts.Pack("plain", charts.Name("above")), chartserver.At("/plain.tgz"))
	both := accessTo(repository.URL(), repository.CA())
	both.ChartRepositories = append(both.ChartRepositories, sdk.ChartRepositoryCredentials{URL: elsewhere.URL(), CAData: elsewhere.CA()})
	chart := ofRepository(repository.URL(), "plain", "")

	t.Run("Elsewhere", func(t *testing.T) {
		elsewhere.Forget()
		newWorld(t).want(t, chart, both, plain)
		if got := elsewhere.WithCredentials(); len(got) > 0 || elsewhere.Count(chartserver.Any) != 1 {
			t.Errorf("expected one request without credentials elsewhere, but found %v", elsewhere.Requests(chartserver.Any))
		}
	})
	t.Run("AuthorityElsewhere", func(t *testing.T) {
		newWorld(t).wantError(t, chart, accessTo(repository.URL(), repository.CA()), chartsource.ReasonUnavailable, "", "not trusted", elsewhere.URL())
	})
	t.Run("ElsewhereWithItsOwn", func(t *testing.T) {
		elsewhere.Forget()
		own := accessTo(repository.URL(), repository.CA())
		own.ChartRepositories = append(own.ChartRepositories, sdk.ChartRepositoryCredentials{URL: elsewhere.URL(), CAData: elsewhere.CA(), AuthHeader: "Bearer own"})
		newWorld(t).want(t, chart, own, plain)
		for _, r := range elsewhere.Requests(chartserver.Any) {
			if got := r.Header.Get("Authorization"); got != "Bearer own" {
				t.Errorf("expected its own credentials elsewhere, but found %q", got)
			}
		}
	})
	t.Run("SameServer", func(t *testing.T) {
		repository.Forget()
		w := newWorld(t)
		w.wantError(t, ofRepository(repository.URL(), "above", ""), both, chartsource.ReasonNotFound, "")
		if got := repository.WithCredentials(); len(got) != 2 {
			t.Errorf("expected credentials for a chart of the same server, but found %v", got)
		}
	})
}

func TestRepositoryLooksUpIndexAgain(t *testing.T) {
	t.Parallel()
	repository := chartserver.StartRepository(t, chartserver.Options{})
	add(t, repository, plain)
	credentials := trustIn(repository.URL(), repository.CA())
	chart := ofRepository(repository.URL(), "plain", "")
	w := newWorld(t)
	w.want(t, chart, credentials, plain)
	wantRequests(t, repository.Server, 2, "index and archive")
	w.want(t, chart, credentials, plain)
	wantRequests(t, repository.Server, 0, "an index that was looked up just now")
	w.later()
	w.want(t, chart, credentials, plain)
	if got := repository.Requests(chartserver.Any); len(got) != 1 || !isConditional(got[0]) {
		t.Errorf("expected one request for an index that has not changed, but found %v", got)
	}
	repository.Forget()
	add(t, repository, other)
	w.later()
	w.want(t, chart, credentials, other)
	wantRequests(t, repository.Server, 2, "a new version")
}

// TestRepositoryAddresses: the archive may be in a registry, and any of several addresses will do.
func TestRepositoryAddresses(t *testing.T) {
	t.Parallel()
	repository := chartserver.StartRepository(t, chartserver.Options{})
	registry := chartserver.StartRegistry(t, chartserver.Options{Auth: chartserver.Basic, User: user, Password: password})
	push(t, registry, "charts/plain", "1.0.0", plain)
	push(t, registry, "charts/plain", "wrong", other)
	credentials := trustIn(repository.URL(), repository.CA())
	credentials.Registries = loginFor(registry.Host()).Registries
	w := newWorld(t, registry.Server)
	oci := "oci://" + registry.Ref("charts/plain", "1.0.0")
	for name, urls := range map[string][]string{
		"oci":     {oci},
		"several": {"http://127.0.0.1:1/nobody.tgz", "nowhere.tgz", "ftp://x", oci},
	} {
		add(t, repository, plain, chartserver.At(urls...))
		w.later()
		t.Run(name, func(t *testing.T) { w.want(t, ofRepository(repository.URL(), "plain", ""), credentials, plain) })
	}
	add(t, repository, plain, chartserver.At("oci://"+registry.Ref("charts/plain", "wrong")))
	w.later()
	w.wantError(t, ofRepository(repository.URL(), "plain", ""), credentials, chartsource.ReasonDigestMismatch, v1alpha1.ErrorConfigurationProblem)
	// What may change by itself decides, whatever else there is.
	add(t, repository, plain, chartserver.At("ftp://x", "nowhere.tgz", "ftp://y"))
	w.later()
	w.wantError(t, ofRepository(repository.URL(), "plain", ""), credentials, chartsource.ReasonNotFound, "", "nowhere.tgz")
}

func TestRepositoryMisbehaves(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		kind   chartserver.Kind
		fault  chartserver.Fault
		want   string
		code   v1alpha1.ErrorCode
		text   string
	}{
		"Cut":          {"a connection can break", chartserver.File, cut, chartsource.ReasonUnavailable, "", "broke off"},
		"Endless":      {"there is a limit", chartserver.File, chartserver.Endless(plain), chartsource.ReasonTooLarge, v1alpha1.ErrorConfigurationProblem, "65536 bytes"},
		"EndlessIndex": {"there is a limit", chartserver.Index, chartserver.Endless([]byte("apiVersion: v1\n")), chartsource.ReasonTooLarge, v1alpha1.ErrorConfigurationProblem, "65537 bytes"},
		"Page":         {"it is no repository", chartserver.Index, chartserver.Answer(http.StatusOK, []byte("<html>hello</html>")), chartsource.ReasonArchiveInvalid, v1alpha1.ErrorConfigurationProblem, "helmChartRepoUrl"},
		"Stall":        {"a server that hangs is given up", chartserver.File, chartserver.Stall(plain[:10]), chartsource.ReasonUnavailable, "", "stopped sending"},
		"Circle":       {"there is an end to redirects", chartserver.Index, chartserver.Redirect("index.yaml"), chartsource.ReasonUnavailable, "", "redirected more than"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repository := chartserver.StartRepository(t, chartserver.Options{})
			add(t, repository, plain)
			mend := repository.Break(test.kind, test.fault)
			w := newWorldWith(t, chartsource.Config{Config: fetch.Config{StallAfter: stallAfter}, ArchiveBytes: 1 << 16, IndexBytes: 1<<16 + 1})
			credentials := accessTo(repository.URL(), repository.CA())
			w.wantError(t, ofRepository(repository.URL(), "plain", ""), credentials, test.want, test.code, test.text)
			mend()
			w.later()
			w.want(t, ofRepository(repository.URL(), "plain", ""), credentials, plain)
			if t.Failed() {
				t.Log(test.reason)
			}
		})
	}
}

// isConditional says whether a request asks only for what has changed.
func isConditional(r chartserver.Request) bool { return r.Header.Get("If-None-Match") != "" }

// failing is a worker that fails at each index, and counts them.
type failing struct {
	err  error
	runs int
}

func (f *failing) Run(ctx context.Context, req *helm.Request, o helm.Observer) (*helm.Result, error) {
	if f.runs++; f.err != nil {
		return nil, f.err
	}
	return reader{}.Run(ctx, req, o)
}

// TestIndexIsReadByAWorker: once for all jobs with the same wish, and within its limits.
func TestIndexIsReadByAWorker(t *testing.T) {
	t.Parallel()
	repository := chartserver.StartRepository(t, chartserver.Options{})
	add(t, repository, plain)
	credentials := trustIn(repository.URL(), repository.CA())
	chart := ofRepository(repository.URL(), "plain", "")
	worker := &failing{}
	w := newWorldWith(t, chartsource.Config{Helm: worker})
	for kind, want := range map[helm.Kind]string{
		helm.ChartInvalid: chartsource.ReasonArchiveInvalid, helm.LimitExceeded: chartsource.ReasonTooLarge,
	} {
		worker.err = &helm.Error{Kind: kind, Message: "its end"}
		w.wantError(t, chart, credentials, want, v1alpha1.ErrorConfigurationProblem, "the index of chart repository", "its end")
	}
	worker.err = &helm.Error{Kind: helm.Crashed, Message: "its end"}
	w.wantError(t, chart, credentials, chartsource.ReasonUnavailable, "", "its end")
	worker.err, worker.runs = nil, 0
	w.want(t, chart, credentials, plain)
	w.later()
	w.want(t, chart, credentials, plain)
	if worker.runs != 1 {
		t.Errorf("expected an unchanged index to be read once, but found %d times", worker.runs)
	}
	w.want(t, ofRepository(repository.URL(), "plain", "<9"), credentials, plain)
	add(t, repository, other)
	w.later()
	w.want(t, chart, credentials, other)
	if worker.runs != 3 {
		t.Errorf("expected the index to be read for another version, and after its change, but found %d times", worker.runs)
	}
}
