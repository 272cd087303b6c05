package chartserver

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/repo"

	"github.com/pergola-deploy/pergola/test/charts"
)

func TestHelmDownloadsFromRepository(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		reason         string
		opts           Options
		absolute       bool
		user, password string
		refused        bool
	}{
		{name: "public", reason: "without authentication nobody is asked"},
		{name: "plain HTTP", reason: "without TLS as well", opts: Options{PlainHTTP: true}},
		{name: "below a path", reason: "a relative URL is relative to the repository", opts: Options{Path: "/charts/stable/"}},
		{name: "absolute URL", reason: "an absolute URL is where it says", opts: Options{Path: "stable"}, absolute: true},
		{name: "basic", reason: "user and password are right", opts: Options{Auth: Basic}, user: user, password: password},
		{name: "basic without", reason: "nobody is refused", opts: Options{Auth: Basic}, refused: true},
		{name: "basic wrong", reason: "a wrong password is refused", opts: Options{Auth: Basic}, user: user, password: "wrong", refused: true},
		{
			name: "header", reason: "what has to be sent may be said in full",
			opts: Options{Auth: Header, Authorization: BasicAuth(user, password)}, user: user, password: password,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.opts.Auth == Basic {
				tt.opts.User, tt.opts.Password = user, password
			}
			repository := StartRepository(t, tt.opts)
			versions := []string{"1.0.0", "1.2.0", "1.1.0", "2.0.0-rc.1"}
			for _, v := range versions {
				var changes []func(*Entry)
				if tt.absolute {
					changes = append(changes, repository.Absolute)
				}
				if err := repository.Add(charts.Pack("plain", charts.Version(v)), changes...); err != nil {
					t.Fatal(err)
				}
			}
			h := helm{t: t, repository: repository, user: tt.user, password: tt.password}
			if tt.refused {
				if _, err := h.index(); err == nil {
					t.Fatalf("%s, but Helm has got the index", tt.reason)
				}
				if n := len(answered(repository.Requests(), http.StatusOK)); n != 0 {
					t.Errorf("%s, but %d requests were answered", tt.reason, n)
				}
				return
			}
			index, err := h.index()
			if err != nil {
				t.Fatalf("%s: %v", tt.reason, err)
			}
			for wanted, want := range map[string]string{"": "1.2.0", "~1.0": "1.0.0", ">=2.0.0-0": "2.0.0-rc.1", "1.1.0": "1.1.0"} {
				entry, err := index.Get("plain", wanted)
				if err != nil || entry.Version != want {
					t.Errorf("Helm finds %v for %q, want %s: %v", entry, wanted, want, err)
					continue
				}
				archive := charts.Pack("plain", charts.Version(want))
				if entry.Digest != digestOf(archive) || entry.AppVersion != "1.0" || entry.APIVersion != "v2" {
					t.Errorf("the entry of %s is %+v", want, entry)
				}
				if got := h.download(entry.URLs[0]); !bytes.Equal(got, archive) {
					t.Errorf("%s: Helm has got other bytes than were added", tt.reason)
				}
			}
			if repository.Count(Index) != 1 || repository.Count(File) != 4 {
				t.Errorf("the books have %d and %d requests, want 1 for the index and 4 for archives",
					repository.Count(Index), repository.Count(File))
			}
		})
	}
}

// helm is the part of Helm's library that downloads.
type helm struct {
	t              *testing.T
	repository     *Repository
	user, password string
}

func (h helm) index() (*repo.IndexFile, error) {
	h.t.Helper()
	entry := &repo.Entry{Name: "test", URL: h.repository.URL(), Username: h.user, Password: h.password, CAFile: h.caFile()}
	r, err := repo.NewChartRepository(entry, getter.Providers{{Schemes: []string{"http", "https"}, New: getter.NewHTTPGetter}})
	if err != nil {
		h.t.Fatal(err)
	}
	r.CachePath = h.t.TempDir()
	file, err := r.DownloadIndexFile()
	if err != nil {
		return nil, err
	}
	return repo.LoadIndexFile(file)
}

func (h helm) caFile() string {
	h.t.Helper()
	if h.repository.CA() == nil {
		return ""
	}
	file := filepath.Join(h.t.TempDir(), "ca.pem")
	write(h.t, file, h.repository.CA())
	return file
}

func (h helm) download(target string) []byte {
	h.t.Helper()
	absolute, err := repo.ResolveReferenceURL(h.repository.URL(), target)
	if err != nil {
		h.t.Fatal(err)
	}
	g, err := getter.NewHTTPGetter(getter.WithURL(h.repository.URL()), getter.WithTLSClientConfig("", "", h.caFile()),
		getter.WithBasicAuth(h.user, h.password))
	if err != nil {
		h.t.Fatal(err)
	}
	content, err := g.Get(absolute)
	if err != nil {
		h.t.Fatal(err)
	}
	return content.Bytes()
}

func TestAddReplacesAndChangesEntries(t *testing.T) {
	t.Parallel()
	repository := StartRepository(t, Options{})
	other := charts.Pack("plain", charts.AppVersion("9"))
	for _, add := range []func() error{
		func() error { return repository.Add(charts.Pack("plain")) },
		func() error {
			return repository.Add(other, WithoutDigest, At("https://elsewhere.example.org/plain.tgz"))
		},
		func() error { return repository.Add(charts.Pack("keep"), func(e *Entry) { e.Deprecated = true }) },
	} {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	index, err := helm{t: t, repository: repository}.index()
	if err != nil {
		t.Fatal(err)
	}
	plain := index.Entries["plain"]
	if len(plain) != 1 || plain[0].AppVersion != "9" || plain[0].Digest != "" {
		t.Fatalf("the index has %+v, want the chart that was added last, without a digest", plain)
	}
	if diff := cmp.Diff([]string{"https://elsewhere.example.org/plain.tgz"}, plain[0].URLs); diff != "" {
		t.Errorf("URLs (-want +got):\n%s", diff)
	}
	if keep := index.Entries["keep"]; len(keep) != 1 || !keep[0].Deprecated {
		t.Errorf("the index has %+v, want one that is deprecated", keep)
	}
	if got := get(t, repository.Server, "/charts/plain-1.0.0.tgz", "").body; !bytes.Equal(got, other) {
		t.Error("the archive was not replaced")
	}
	repository.Remove("charts/plain-1.0.0.tgz")
	if got := get(t, repository.Server, "/charts/plain-1.0.0.tgz", "").status; got != http.StatusNotFound {
		t.Errorf("an archive that was removed is answered with %d, want 404", got)
	}
	repository.SetIndex([]byte("]["))
	if got := get(t, repository.Server, "/index.yaml", "").body; string(got) != "][" {
		t.Errorf("the index is %q, want what it was set to", got)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	files := StartFiles(t, Options{Auth: Header, Authorization: "Bearer secret"})
	target := files.Put("some/plain.tgz", []byte("content"))
	if !strings.HasPrefix(target, files.URL()) {
		t.Errorf("the URL is %s", target)
	}
	const path = "/some/plain.tgz"
	tests := []struct {
		name   string
		reason string
		change func(*http.Request)
		status int
		body   string
	}{
		{name: "right", reason: "the header is right", status: 200, body: "content", change: func(*http.Request) {}},
		{
			name: "wrong", reason: "the header has to be the same", status: 401,
			change: func(r *http.Request) { r.Header.Set("Authorization", "Bearer other") },
		},
		{
			name: "unchanged", reason: "who has it already is told so", status: 304,
			change: func(r *http.Request) { r.Header.Set("If-None-Match", `"`+digestOf([]byte("content"))+`"`) },
		},
		{
			name: "changed", reason: "who has another gets it", status: 200, body: "content",
			change: func(r *http.Request) { r.Header.Set("If-None-Match", `"other"`) },
		},
		{
			name: "range", reason: "a part can be asked for", status: 206, body: "tent",
			change: func(r *http.Request) { r.Header.Set("Range", "bytes=3-") },
		},
		{name: "missing", reason: "what is not there is not there", status: 404, change: func(r *http.Request) { r.URL.Path = "/other" }},
		{name: "writing", reason: "nobody writes", status: 405, change: func(r *http.Request) { r.Method = http.MethodPut }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request := newRequest(t, http.MethodGet, files.URL()+path, nil)
			request.Header.Set("Authorization", "Bearer secret")
			tt.change(request)
			answer := do(t, files.Server, request)
			if answer.status != tt.status {
				t.Errorf("%s: the server answers %d, want %d", tt.reason, answer.status, tt.status)
			}
			if tt.body != "" && string(answer.body) != tt.body {
				t.Errorf("%s: the server answers %q, want %q", tt.reason, answer.body, tt.body)
			}
		})
	}
	files.Remove("some/plain.tgz")
	if paths := files.Paths(); len(paths) != 0 {
		t.Errorf("there still is %v", paths)
	}
}
