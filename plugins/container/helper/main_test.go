package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// helperEnv tells a process of this test to be the program itself.
const helperEnv = "CONTAINER_HELPER_TEST"

// patience is how long a test waits for what must come, however slow the machine is.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		main()
	}
	os.Exit(plugintest.Main(m))
}

// place is where the program runs: a base directory and a file for its termination message.
type place struct {
	*testing.T

	base, message string
	env           []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{T: t, base: filepath.Join(dir, "ls"), message: filepath.Join(dir, "message")}
	must(t, os.Mkdir(p.base, 0o755))
	must(t, os.WriteFile(p.message, []byte("something of before that is longer than any message"), 0o644))
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *place) write(name, content string) {
	p.Helper()
	path := filepath.Join(p.base, name)
	must(p.T, os.MkdirAll(filepath.Dir(path), 0o755))
	must(p.T, os.WriteFile(path, []byte(content), 0o644))
}

func (p *place) read(name string) string {
	p.Helper()
	content, err := os.ReadFile(filepath.Join(p.base, name))
	must(p.T, err)
	return string(content)
}

// mount writes chunks as Kubernetes does: links to files in a directory that is replaced as a whole.
func (p *place) mount(dir string, chunks ...[]byte) {
	p.Helper()
	for i, chunk := range chunks {
		p.write(filepath.Join(dir, "..2026_01_01", layout.ChunkFile(i)), string(chunk))
		must(p.T, os.Symlink(filepath.Join("..data", layout.ChunkFile(i)), filepath.Join(p.base, dir, layout.ChunkFile(i))))
	}
	must(p.T, os.Symlink("..2026_01_01", filepath.Join(p.base, dir, "..data")))
}

// packed is an archive of files.
func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	all := map[string][]byte{}
	for name, content := range files {
		all[name] = []byte(content)
	}
	raw, err := archive.FromFiles(all)
	must(t, err)
	return raw
}

// grant writes what the wait container needs for its uploads.
func (p *place) grant(host, port, authorities, token string, upload layout.Upload) {
	p.Helper()
	p.env = append(p.env, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	text, err := json.Marshal(upload)
	must(p.T, err)
	p.write(layout.Access+"/"+layout.AuthoritiesFile, authorities)
	p.write(layout.Access+"/"+layout.TokenFile, token+"\n")
	p.write(layout.Access+"/"+layout.UploadFile, string(text))
}

// process is the program while it runs.
type process struct {
	*place

	cmd    *exec.Cmd
	lines  chan string
	stderr bytes.Buffer
	stdout bytes.Buffer
}

// start starts the program. It is killed with the test.
func (p *place) start(args ...string) *process {
	p.Helper()
	program, err := os.Executable()
	must(p.T, err)
	c := &process{place: p, cmd: exec.CommandContext(p.Context(), program, args...), lines: make(chan string, 1000)}
	c.cmd.Env = append(append(os.Environ(), helperEnv+"=1"), p.env...)
	c.cmd.Stdout = &c.stdout
	stderr, err := c.cmd.StderrPipe()
	must(p.T, errors.Join(err, c.cmd.Start()))
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
	}()
	return c
}

// wait starts "helper wait" and returns when it waits.
func (p *place) wait() *process {
	p.Helper()
	c := p.start("wait", "--base", p.base, "--termination-message", p.message)
	c.until("waiting for main to end")
	return c
}

// until reads what the program says until it says that. It reads to the end for "".
func (c *process) until(text string) {
	c.Helper()
	for deadline := time.After(patience); ; {
		select {
		case line, ok := <-c.lines:
			switch {
			case !ok && text != "":
				c.Fatalf("the program has ended and did not say %q:\n%s", text, &c.stderr)
			case !ok:
				return
			}
			c.stderr.WriteString(line + "\n")
			if text != "" && strings.Contains(line, text) {
				return
			}
		case <-deadline:
			c.Fatalf("waited in vain for %q:\n%s", text, &c.stderr)
		}
	}
}

func (c *process) signal(s syscall.Signal) {
	c.Helper()
	must(c.T, c.cmd.Process.Signal(s))
}

// end waits for the end of the program, and returns its exit code and what it has said.
func (c *process) end() (code int, said string) {
	c.Helper()
	c.until("")
	err := c.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		c.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode(), c.stderr.String()
}

// mustEnd expects that the program ends well, and tells no secrets. It returns what the program has said.
func (c *process) mustEnd() string {
	c.Helper()
	code, said := c.end()
	if code != 0 {
		c.Fatalf("found the exit code %d:\n%s", code, said)
	}
	withoutSecrets(c.T, said)
	return said
}

// mustUpload asks "helper wait" to end, and is mustEnd for the rest.
func (c *process) mustUpload() string {
	c.Helper()
	c.signal(syscall.SIGTERM)
	return c.mustEnd()
}

// mustFail expects one sentence in the termination message, which is the last line of what the program says, too, and
// no secrets.
func (c *process) mustFail(parts ...string) string {
	c.Helper()
	code, said := c.end()
	message, err := os.ReadFile(c.message)
	must(c.T, err)
	if code != 1 || strings.Count(string(message), "\n") != 1 || !strings.HasSuffix(said, string(message)) {
		c.Errorf("expected the exit code 1 and one sentence in both places, but found %d, %q and:\n%s", code, message, said)
	}
	for _, part := range parts {
		if !strings.Contains(string(message), part) {
			c.Errorf("expected %q in %q", part, message)
		}
	}
	withoutSecrets(c.T, said)
	return said
}

func TestArguments(t *testing.T) {
	t.Parallel()
	version := newPlace(t).start("version")
	if version.mustEnd(); version.stdout.String() != "dev\n" {
		t.Errorf("found %q", &version.stdout)
	}
	for _, args := range [][]string{{}, {"help"}, {"init", "more"}, {"wait", "--bose", "x"}} {
		if code, said := newPlace(t).start(args...).end(); code != 2 || !strings.Contains(said, "usage: helper") {
			t.Errorf("%q: found the exit code %d and %q", args, code, said)
		}
	}
}
