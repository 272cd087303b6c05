package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// Rule (container.md#contract-with-the-image): State is uploaded for the next run, and restored by it.
func TestWaitUploads(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1", "::1"} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			s, p := newAPIServer(t, address, nil)
			large := noise(3 * layout.ChunkBytes / 2)
			c := p.wait()
			// Only what is there when main has ended counts.
			p.write(layout.State+"/dir/large", large)
			p.write(layout.Exports, "key: s3cr3t\n")
			c.mustUpload()

			s.mustHave("run-state-0", "run-state-1", "run-result")
			var chunks [][]byte
			for i, document := range s.applied[:2] {
				want := metadata{
					Name: fmt.Sprint("run-state-", i), Labels: map[string]string{"kind": "state"},
					Annotations: map[string]string{"uuid": "u", layout.NumberAnnotation: fmt.Sprint(i)},
				}
				if diff := cmp.Diff(want, document.Metadata); diff != "" || document.Type != "Opaque" || len(document.Data) != 1 {
					t.Errorf("Secret of a chunk, -want +got:\n%s", diff)
				}
				chunks = append(chunks, document.Data[layout.ChunkKey])
			}
			result := metadata{Name: "run-result", Labels: map[string]string{"kind": "result"}}
			if diff := cmp.Diff(result, s.applied[2].Metadata); diff != "" {
				t.Errorf("Secret with the result, -want +got:\n%s", diff)
			}
			report, exports := s.report()
			diff := cmp.Diff(layout.Report{Exported: true, StateChunks: 2}, report)
			if diff != "" || string(exports) != "key: s3cr3t\n" {
				t.Errorf("found the exports %q, report, -want +got:\n%s", exports, diff)
			}
			files, err := archive.Files(archive.Join(chunks))
			if err != nil || string(files["dir/large"]) != large {
				t.Errorf("the state is not what it was (%v)", err)
			}
		})
	}
}

func TestWaitTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(outside, []byte("s3cr3t"), 0o600))
	const stateFails, exportsFail = "the state is not kept: ", "the exports are not taken: "
	exported := layout.Report{Exported: true}
	for _, c := range []struct {
		name string
		// files have their content, or "->" for a link that leads out.
		files  map[string]string
		want   layout.Report
		errors []string
	}{
		{"nothing", nil, layout.Report{}, nil},
		{"empty exports", map[string]string{layout.Exports: ""}, exported, nil},
		// Rule (container.md#contract-with-the-image): Other than plain files in the state is refused.
		{
			"state with a link", map[string]string{layout.State + "/a": "->", layout.Exports: "s3cr3t"},
			layout.Report{Exported: true, StateFailed: true},
			[]string{stateFails + `"state/a" is a symbolic link, but only a regular file`},
		},
		// Rule (container.md#for-operators): `limits.state` limits the packed state.
		{
			"state is too large", map[string]string{layout.State + "/a": noise(4 * layout.ChunkBytes)},
			layout.Report{StateFailed: true},
			[]string{stateFails + `"state" has `, " bytes when it is packed, but 4194304 are allowed; keep less in it"},
		},
		// Rule (container.md#contract-with-the-image): Other than a plain file as exports is refused.
		{
			"exports are a link", map[string]string{layout.Exports: "->", layout.State + "/b/c": "1"},
			layout.Report{StateChunks: 1},
			[]string{exportsFail + `"exports/values" is a symbolic link, but only a regular file`},
		},
		// Rule (container.md#for-operators): `limits.exports` limits the file of exports.
		{
			"exports are too long", map[string]string{layout.Exports: strings.Repeat("x", 1001)}, layout.Report{},
			[]string{exportsFail + `"exports/values" has more bytes than the limit of 1000; export less`},
		},
		{"longest exports", map[string]string{layout.Exports: strings.Repeat("x", 1000)}, exported, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, p := newAPIServer(t, "127.0.0.1", nil)
			for name, content := range c.files {
				p.write(name, content)
				if file := filepath.Join(p.base, name); content == "->" {
					must(t, errors.Join(os.Remove(file), os.Symlink(outside, file)))
				}
			}
			p.wait().mustUpload()
			report, exports := s.report()
			all := strings.Join(report.Errors, "\n")
			for _, part := range c.errors {
				if !strings.Contains(all, part) {
					t.Errorf("expected %q in %q", part, all)
				}
			}
			if (len(c.errors) == 0) != (len(report.Errors) == 0) || (exports != nil) != report.Exported ||
				len(s.names()) != report.StateChunks+1 {
				t.Errorf("found %+v with %d bytes of exports and the Secrets %v", report, len(exports), s.names())
			}
			report.Errors = nil
			if diff := cmp.Diff(c.want, report); diff != "" {
				t.Errorf("report, -want +got:\n%s", diff)
			}
		})
	}
}

// The user is told how to have a file of the image readable. No mode keeps root from reading, so no file shows it.
func TestAdvised(t *testing.T) {
	t.Parallel()
	denied := fmt.Errorf("open %q: %w", "state/a", syscall.EACCES)
	for err, advice := range map[error]string{
		denied: "; have the image make its results readable for all users", errors.New("there is no room"): "",
	} {
		if got := advised(err); got.Error() != err.Error()+advice || !errors.Is(got, err) {
			t.Errorf("expected the advice %q for %q, but found %q", advice, err, got)
		}
	}
}

// Trouble passes: each of the first attempts meets it, and then all is written.
func TestWaitTriesAgain(t *testing.T) {
	t.Parallel()
	status := func(code int) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			w.Header().Set("Retry-After", map[int]string{429: "1"}[code])
			return answer(w, code, "")
		}
	}
	for name, c := range map[string]struct {
		trouble func(w http.ResponseWriter) bool
		says    string
	}{
		"503": {status(503), "answers 503"},
		"429": {status(429), "answers 429 (Too Many Requests)"},
		"409": {status(409), "answers 409"},             // for a quota
		"403": {status(403), "answers 403 (Forbidden)"}, // before the API server knows of the rights
		"cut": {cut, "EOF"},
		"cut in the answer": {func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(500)
			return cut(w)
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newAPIServer(t, "127.0.0.1",
				func(count int, w http.ResponseWriter, _ *http.Request) bool { return count < 2 && c.trouble(w) })
			p.write(layout.State+"/a", "s3cr3t")
			said := p.wait().mustUpload()
			s.mustHave("run-state-0", "run-result")
			if s.requests != 4 || strings.Count(said, "cannot upload yet") != 2 || !strings.Contains(said, c.says) {
				t.Errorf("found %d requests and:\n%s", s.requests, said)
			}
		})
	}
}

// A token is replaced after it has ended.
func TestWaitReadsTheTokenAgain(t *testing.T) {
	t.Parallel()
	var p *place
	s, p := newAPIServer(t, "127.0.0.1", func(count int, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+secretToken {
			return false
		}
		if count == 1 { // the second with the old one
			p.write(layout.Access+"/new", secretToken)
			if err := os.Rename(p.base+"/"+layout.Access+"/new", p.base+"/"+layout.Access+"/"+layout.TokenFile); err != nil {
				t.Error(err)
			}
		}
		return answer(w, 401, "Unauthorized")
	})
	p.write(layout.Access+"/"+layout.TokenFile, "old")
	w := p.wait()
	w.signal(syscall.SIGINT)
	w.mustEnd()
	s.mustHave("run-result")
	if s.requests != 3 {
		t.Errorf("found %d requests", s.requests)
	}
}

// The API server is not there yet. Neither are further signals a reason to end.
func TestWaitIgnoresFurtherSignals(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	s, p := newAPIServer(t, "127.0.0.1", func(count int, w http.ResponseWriter, _ *http.Request) bool {
		if count > 0 {
			return false
		}
		close(held)
		<-release
		return cut(w)
	})
	w := p.wait()
	w.signal(syscall.SIGTERM)
	<-held
	for _, further := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM} {
		w.signal(further)
	}
	close(release)
	said := w.mustEnd()
	s.mustHave("run-result")
	// It may be killed then.
	last := `msg="cannot upload yet" note="` + layout.NoState
	if strings.Count(said, "main has ended") != 1 || !strings.Contains(said, last) {
		t.Errorf("expected the end of main once, and %q, but found:\n%s", last, said)
	}
}

// Kubernetes does not ask it to end as long as others go on beside main, and would start it again if it ended.
func TestWaitIsToldByAFile(t *testing.T) {
	t.Parallel()
	s, p := newAPIServer(t, "127.0.0.1", nil)
	p.write(layout.State+"/a", "1")
	w := p.wait()
	p.write(layout.Access+"/"+layout.EndedFile, "true")
	w.until("secret=run-result")
	w.signal(syscall.Signal(0)) // it is there
	w.mustUpload()
	s.mustHave("run-state-0", "run-result")
}

func TestWaitGivesUp(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{
		404: "404 (Not Found); create its namespace again",
		413: "413 (Request Entity Too Large); have the image keep and export less",
		422: "422 (Unprocessable Entity); ask",
		400: "400 (Bad Request); ask",
		307: "307 (Temporary Redirect); ask", // another server is not to have it
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s, p := newAPIServer(t, "127.0.0.1", func(_ int, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Location", "https://"+r.Host+"/elsewhere")
				return answer(w, code, "s3cr3t")
			})
			p.write(layout.Exports, "s3cr3t")
			w := p.wait()
			w.signal(syscall.SIGTERM)
			w.mustFail(want, "the results of the image cannot be uploaded: ", "Secret some-ns/run-result", layout.NoState)
			s.mustHave()
			if s.requests != 1 {
				t.Errorf("found %d requests", s.requests)
			}
		})
	}
}

// Once a chunk is refused there is no result, since it would tell of a missing one.
func TestWaitWritesTheResultLast(t *testing.T) {
	t.Parallel()
	s, p := newAPIServer(t, "127.0.0.1", func(_ int, w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "run-state-1") && answer(w, 422, "")
	})
	p.write(layout.State+"/a", noise(2*layout.ChunkBytes))
	w := p.wait()
	w.signal(syscall.SIGTERM)
	if said := w.mustFail("Secret some-ns/run-state-1"); strings.Contains(said, layout.NoState) {
		t.Errorf("found:\n%s", said)
	}
	s.mustHave("run-state-0")
}

func TestWaitWithoutAccess(t *testing.T) {
	t.Parallel()
	without := func(path string) func(*place) {
		return func(p *place) { must(p.T, os.RemoveAll(filepath.Join(p.base, path))) }
	}
	noNames := func(p *place) { p.write(layout.Access+"/upload.json", "{}") }
	noAddress := func(p *place) { p.env = append(p.env, "KUBERNETES_SERVICE_PORT=") }
	for name, c := range map[string]struct {
		spoil func(p *place)
		want  string
	}{
		"no upload.json": {without(layout.Access + "/upload.json"), "read the instructions for the upload: "},
		"no names":       {noNames, "names no Secret and its namespace"},
		"no token":       {without(layout.Access + "/token"), "read token: "},
		"no authorities": {without(layout.Access + "/ca.crt"), "API server's authorities: "},
		"no address":     {noAddress, "KUBERNETES_SERVICE_PORT are not both set"},
		"no volume":      {without("shared"), "open directory: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newAPIServer(t, "127.0.0.1", nil)
			c.spoil(p)
			w := p.wait()
			w.signal(syscall.SIGTERM)
			w.mustFail("the results of the image cannot be uploaded: ", c.want)
			s.mustHave()
		})
	}
}
