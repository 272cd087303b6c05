package chartsource_test

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

func TestRemoteArchive(t *testing.T) {
	t.Parallel()
	files := chartserver.StartFiles(t, withLogin)
	chart := ofURL(files.Put("plain.tgz", plain) + "?signature=x")
	w := newWorld(t)
	credentials := accessTo(files.Server)
	w.want(t, chart, credentials, plain)
	wantRequests(t, files.Server, 1, "the first time")
	w.want(t, chart, credentials, plain)
	wantRequests(t, files.Server, 0, "just now")
	w.later()
	w.want(t, chart, credentials, plain)
	if got := files.Requests(chartserver.Any); len(got) != 1 || !isConditional(got[0]) {
		t.Errorf("expected it to be asked for whether it has changed, but found %v", got)
	}
	files.Put("plain.tgz", other)
	w.later()
	w.want(t, chart, credentials, other)
	w.wantError(t, chart, trustIn(files.Server), chartsource.ReasonCredentialsMissing, "plain.tgz?…")
	files.Break(chartserver.Any, chartserver.Answer(http.StatusNotFound, nil))
	w.later()
	w.wantError(t, chart, credentials, chartsource.ReasonNotFound, "404")
}

// TestRemoteArchiveWithoutValidators: what a server does not know again is downloaded again.
func TestRemoteArchiveWithoutValidators(t *testing.T) {
	t.Parallel()
	files := chartserver.StartFiles(t, chartserver.Options{PlainHTTP: true})
	chart := ofURL(files.Put("plain.tgz", nil))
	w := newWorld(t)
	for _, content := range [][]byte{plain, plain, other} {
		mend := files.Break(chartserver.Any, chartserver.Answer(http.StatusOK, content))
		w.want(t, chart, nil, content)
		w.later()
		mend()
	}
	wantRequests(t, files.Server, 3, "each time")
}

func TestRemoteArchiveRedirects(t *testing.T) {
	t.Parallel()
	files, elsewhere := chartserver.StartFiles(t, chartserver.Options{}), chartserver.StartFiles(t, chartserver.Options{})
	url, back := files.Put("a.tgz", plain), elsewhere.Put("back.tgz", nil)
	elsewhere.Break(chartserver.Any, chartserver.Redirect(files.Put("b.tgz", plain)))
	files.Break("/a.tgz", chartserver.Redirect(back))
	// The operator trusts the other server, because nothing but the address itself is matched with the credentials of
	// the Context.
	w := newWorld(t, elsewhere.Server)
	w.want(t, ofURL(url+"?signature=x"), accessTo(files.Server, elsewhere.Server), plain)
	for _, r := range append(elsewhere.Requests(chartserver.Any), files.Requests(chartserver.Any)...) {
		if r.Path != "/a.tgz" && (r.HasCredentials() || r.Header.Get("Referer") != "") {
			t.Errorf("expected no credentials after a redirect to another server, nor back, but found %v in %s", r.Header, r)
		}
	}
}

// TestRedirects: all names of hosts lead to one server, so that what is below a host, or beside it, can be told from
// it.
func TestRedirects(t *testing.T) {
	t.Parallel()
	const from = "http://c.example.org/a"
	for name, test := range map[string]struct {
		from, to string
		want     bool
	}{
		"the same server":                     {from, "http://c.example.org/b", true},
		"the port of the scheme says nothing": {from, "http://c.example.org:80/b", true},
		"another port is another server":      {from, "http://c.example.org:8080/b", false},
		"names below may have another owner":  {"http://example.org/a", "http://c.example.org/b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := chartserver.StartFiles(t, chartserver.Options{PlainHTTP: true})
			files.Put("b", plain)
			files.Break("/a", chartserver.Redirect(test.to))
			w := newWorldWith(t, chartsource.Config{Config: fetch.Config{
				UserAgent: "tester",
				Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, files.Host())
				}},
			}})
			credentials := accessTo(files.Server)
			credentials.ChartRepositories[0].URL = test.from
			w.want(t, ofURL(test.from), credentials, plain)
			last := files.Requests("/b")[0].Header
			if got := last.Get("Authorization") != ""; got != test.want || last.Get("Referer") != "" {
				t.Errorf("expected credentials: %t, but found %v", test.want, last)
			}
			if last.Get("User-Agent") != "tester" || last.Get("Accept-Encoding") != "" {
				t.Errorf("expected the user agent and no compression, but found %v", last)
			}
		})
	}
}

// TestSlowIsNotStalled: what matters is the time without anything, not that of all.
func TestSlowIsNotStalled(t *testing.T) {
	t.Parallel()
	files := chartserver.StartFiles(t, chartserver.Options{PlainHTTP: true})
	files.Break(chartserver.Any, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for piece := range slices.Chunk(plain, len(plain)/20+1) {
			_, _ = w.Write(piece)
			_ = http.NewResponseController(w).Flush()
			<-time.After(150 * time.Millisecond)
		}
	})
	w := newWorldWith(t, chartsource.Config{Config: fetch.Config{StallAfter: 2 * time.Second}})
	w.want(t, ofURL(files.URL()+"/plain.tgz"), nil, plain)
}

// TestRemoteArchiveQuotesNothing: what an internal server says does not get into an error.
// Rule (SECURITY.md#secrets): Texts of a server with charts are not repeated.
func TestRemoteArchiveQuotesNothing(t *testing.T) {
	t.Parallel()
	files := chartserver.StartFiles(t, chartserver.Options{PlainHTTP: true})
	chart := ofURL(files.Put("secret.txt", []byte(password)))
	w := newWorld(t)
	w.wantError(t, chart, nil, chartsource.ReasonArchiveInvalid, "found text/plain")
	for _, status := range []int{http.StatusTeapot, http.StatusForbidden, http.StatusFound} {
		mend := files.Break(chartserver.Any, chartserver.Answer(status, []byte(password),
			"X", password, "WWW-Authenticate", password, "Location", "http://127.0.0.1:1/?"+password))
		if _, err := w.get(t, ask(t, chart, nil)); err == nil { // which looks for the secret
			t.Errorf("expected status %d to be an error", status)
		}
		mend()
	}
}

func ofRaw(content []byte) helmChart {
	return helmChart{Archive: &helmv1alpha1.Archive{Raw: base64.StdEncoding.EncodeToString(content)}}
}

func TestRawArchive(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, chartsource.Config{ArchiveBytes: int64(len(plain))})
	w.want(t, ofRaw(plain), nil, plain)
	w.want(t, ofRaw(plain), nil, plain)
	longer := slices.Concat(plain, []byte{0})
	w.wantError(t, ofRaw(longer), nil, chartsource.ReasonTooLarge, "provider configuration")
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := chartsource.New(chartsource.Config{Config: fetch.Config{Dir: file}})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("expected to be told that the directory is none, but found %v", err)
	}
	w := newWorld(t)
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	w.wantError(t, ofRaw(plain), nil, chartsource.ReasonCache, w.dir)
}
