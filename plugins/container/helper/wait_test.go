package main

import (
	"errors"
	"fmt"
	"io/fs"
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
			c.signal(syscall.SIGTERM)
			c.mustEnd()
			withoutSecrets(t, c.stderr.String())

			s.mustHave("run-state-0", "run-state-1", "run-result")
			for i, document := range s.applied[:2] {
				want := metadata{
					Name: fmt.Sprint("run-state-", i), Labels: map[string]string{"kind": "state"},
					Annotations: map[string]string{"uuid": "u", layout.NumberAnnotation: fmt.Sprint(i)},
				}
				if diff := cmp.Diff(want, document.Metadata); diff != "" || document.Type != "Opaque" || len(document.Data) != 1 {
					t.Errorf("Secret of a chunk, -want +got:\n%s", diff)
				}
			}
			if diff := cmp.Diff(metadata{Name: "run-result", Labels: map[string]string{"kind": "result"}},
				s.applied[2].Metadata); diff != "" {
				t.Errorf("Secret with the result, -want +got:\n%s", diff)
			}
			report, exports := s.report()
			if diff := cmp.Diff(layout.Report{Exported: true, StateChunks: 2}, report); diff != "" {
				t.Errorf("report, -want +got:\n%s", diff)
			}
			if string(exports) != "key: s3cr3t\n" {
				t.Errorf("found the exports %q", exports)
			}
			root, err := os.OpenRoot(t.TempDir())
			must(t, err)
			defer root.Close()
			must(t, archive.Unpack(archive.Join([][]byte{s.applied[0].Data["config"], s.applied[1].Data["config"]}), root, "."))
			if text, err := root.ReadFile("dir/large"); err != nil || string(text) != large {
				t.Errorf("the state is not what it was (%v)", err)
			}
		})
	}
}

func TestWaitTellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(outside, []byte("s3cr3t"), 0o600))
	type made = func(p *place) error
	shared := func(p *place, name string) string { return filepath.Join(p.base, name) }
	link := func(name string) made {
		return func(p *place) error {
			_ = os.MkdirAll(filepath.Dir(shared(p, name)), 0o755)
			return os.Symlink(outside, shared(p, name))
		}
	}
	file := func(name, text string) made { return func(p *place) error { p.write(name, text); return nil } }
	const stateFails = "the state is not kept: "
	for name, c := range map[string]struct {
		reason string
		make   []made
		want   layout.Report
		errors []string
	}{
		"nothing":       {"an image need not leave anything", nil, layout.Report{}, nil},
		"empty exports": {"empty exports are some", []made{file(layout.Exports, "")}, layout.Report{Exported: true}, nil},
		// Rule (container.md#contract-with-the-image): Other than plain files in the state is refused.
		"state with a link": {
			"it leads out, and the exports are good", []made{
				link(layout.State + "/a"), file(layout.State+"/b", "s3cr3t"), file(layout.Exports, "s3cr3t"),
			},
			layout.Report{Exported: true, StateFailed: true}, []string{
				stateFails + `"state/a" is a symbolic link, but only a regular file`,
			},
		},
		// Rule (container.md#for-operators): `limits.state` limits the packed state.
		"state is too large": {
			"four chunks are allowed", []made{
				file(layout.State+"/a", noise(4*layout.ChunkBytes)),
			}, layout.Report{StateFailed: true},
			[]string{stateFails + `"state" has `, " bytes when it is packed, but 4194304 are allowed; keep less in it"},
		},
		// Rule (container.md#contract-with-the-image): Other than a plain file as exports is refused.
		"exports are a link": {
			"it leads out, and the state is good", []made{link(layout.Exports), file(layout.State+"/b/c", "1")},
			layout.Report{StateChunks: 1}, []string{
				`the exports are not taken: "exports/values" is a symbolic link, but only a regular file`,
			},
		},
		// Rule (container.md#for-operators): `limits.exports` limits the file of exports.
		"exports are too long": {
			"a Secret has an end", []made{file(layout.Exports, strings.Repeat("x", 1001))},
			layout.Report{}, []string{
				`the exports are not taken: "exports/values" has more bytes than the limit of 1000; export less`,
			},
		},
		"longest exports": {
			"that is allowed", []made{file(layout.Exports, strings.Repeat("x", 1000))}, layout.Report{Exported: true}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newAPIServer(t, "127.0.0.1", nil)
			for _, m := range c.make {
				must(t, m(p))
			}
			w := p.wait()
			w.signal(syscall.SIGINT)
			w.mustEnd()
			withoutSecrets(t, w.stderr.String())
			report, exports := s.report()
			all := strings.Join(report.Errors, "\n")
			for _, part := range c.errors {
				if !strings.Contains(all, part) {
					t.Errorf("%s: expected %q in %q", c.reason, part, all)
				}
			}
			if (len(c.errors) == 0) != (len(report.Errors) == 0) || (exports != nil) != report.Exported ||
				len(s.names()) != report.StateChunks+1 {
				t.Errorf("%s: found %+v with %d bytes of exports and the Secrets %v", c.reason, report, len(exports), s.names())
			}
			report.Errors = nil
			if diff := cmp.Diff(c.want, report); diff != "" {
				t.Errorf("%s: report, -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

// What the image has not let others read, the user is told how to let be read. No mode keeps root from reading, so no
// file shows it.
func TestAdvised(t *testing.T) {
	t.Parallel()
	const advice = "; have the image make its results readable for all users"
	for _, err := range []error{fmt.Errorf("open %q: %w", "state/a", syscall.EACCES), errors.New("there is no room")} {
		want := err.Error()
		if errors.Is(err, fs.ErrPermission) {
			want += advice
		}
		if got := advised(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("expected %q, but found %q", want, got)
		}
	}
}

// Trouble passes: each of the first attempts meets it, and then all is written.
func TestWaitTriesAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		trouble func(w http.ResponseWriter, r *http.Request) bool
		says    string
	}{
		"503": {
			"it is not ready", func(w http.ResponseWriter, _ *http.Request) bool { return answer(w, 503, "") }, "answers 503",
		},
		"429": {"it is busy", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "1")
			return answer(w, 429, "")
		}, "answers 429 (Too Many Requests)"},
		"409": {
			"somebody counts the quota at the same time",
			func(w http.ResponseWriter, _ *http.Request) bool { return answer(w, 409, "") }, "answers 409",
		},
		"403": {
			"this one has not heard of the rights",
			func(w http.ResponseWriter, _ *http.Request) bool { return answer(w, 403, "") }, "answers 403 (Forbidden)",
		},
		"cut": {"the connection is cut", func(w http.ResponseWriter, _ *http.Request) bool { return cut(w) }, "EOF"},
		"cut in the answer": {"the connection is cut later", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(500)
			return cut(w)
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newAPIServer(t, "127.0.0.1",
				func(count int, w http.ResponseWriter, r *http.Request) bool { return count < 2 && c.trouble(w, r) })
			p.write(layout.State+"/a", "s3cr3t")
			w := p.wait()
			w.signal(syscall.SIGTERM)
			w.mustEnd()
			withoutSecrets(t, w.stderr.String())
			s.mustHave("run-state-0", "run-result")
			if s.requests != 4 || strings.Count(w.stderr.String(), "cannot upload yet") != 2 ||
				!strings.Contains(w.stderr.String(), c.says) {
				t.Errorf("%s: found %d requests and:\n%s", c.reason, s.requests, &w.stderr)
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
	w.signal(syscall.SIGTERM)
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
	w.signal(syscall.SIGTERM)
	w.signal(syscall.SIGINT)
	w.signal(syscall.SIGTERM)
	close(release)
	w.mustEnd()
	s.mustHave("run-result")
	if strings.Count(w.stderr.String(), "main has ended") != 1 {
		t.Errorf("found:\n%s", &w.stderr)
	}
	if last := `msg="cannot upload yet" note="` + layout.NoState; !strings.Contains(w.stderr.String(), last) {
		t.Errorf("expected %q, since it may be killed then, but found:\n%s", last, &w.stderr)
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
	must(t, w.cmd.Process.Signal(syscall.Signal(0))) // it is there
	w.signal(syscall.SIGTERM)
	w.mustEnd()
	s.mustHave("run-state-0", "run-result")
}

func TestWaitGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code int
		want []string
	}{
		"the namespace is gone":       {404, []string{"404 (Not Found); create its namespace again"}},
		"it is too large":             {413, []string{"413 (Request Entity Too Large); have the image keep and export less"}},
		"it is not valid":             {422, []string{"422 (Unprocessable Entity); ask"}},
		"it cannot be read":           {400, []string{"400 (Bad Request); ask"}},
		"somebody else is to have it": {307, []string{"307 (Temporary Redirect); ask"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newAPIServer(t, "127.0.0.1", func(_ int, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Location", "https://"+r.Host+"/elsewhere")
				return answer(w, c.code, "s3cr3t")
			})
			p.write(layout.Exports, "s3cr3t")
			w := p.wait()
			w.signal(syscall.SIGTERM)
			withoutSecrets(t,
				w.mustFail(append(c.want,
					"the results of the image cannot be uploaded: ", "Secret some-ns/run-result", layout.NoState)...))
			s.mustHave()
			if s.requests != 1 {
				t.Errorf("found %d requests", s.requests)
			}
		})
	}
}

// Once a chunk is refused there is no result, since it would tell of what is not there.
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
	for name, c := range map[string]struct {
		reason string
		spoil  func(p *place)
		want   string
	}{
		"no upload.json": {
			"nothing says where to", func(p *place) { must(p.T, os.Remove(p.base+"/"+layout.Access+"/upload.json")) },
			"read the instructions for the upload: ",
		},
		"no names": {
			"nor does this", func(p *place) { p.write(layout.Access+"/upload.json", "{}") },
			"names no Secret and its namespace",
		},
		"no token": {
			"nobody lets it in", func(p *place) { must(p.T, os.Remove(p.base+"/"+layout.Access+"/token")) }, "read token: ",
		},
		"no authorities": {
			"it might be anybody", func(p *place) { must(p.T, os.Remove(p.base+"/"+layout.Access+"/ca.crt")) },
			"API server's authorities: ",
		},
		"no address": {
			"it is in no Pod", func(p *place) { p.env = append(p.env, "KUBERNETES_SERVICE_PORT=") },
			"KUBERNETES_SERVICE_PORT are not both set",
		},
		"no volume": {
			"it is in no Pod", func(p *place) { must(p.T, os.RemoveAll(p.base+"/shared")) }, "open directory: ",
		},
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
