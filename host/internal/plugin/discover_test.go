package plugin

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// elfHeader returns the header of a program without anything in it.
func elfHeader(t *testing.T, machine elf.Machine) []byte {
	t.Helper()
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	out, err := binary.Append(nil, binary.LittleEndian, header)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what can be executed depends on the system")
	}
	own, foreign := machines[runtime.GOARCH], elf.EM_AARCH64
	if own == foreign {
		foreign = elf.EM_X86_64
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	write := func(path string, content []byte, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(elsewhere, "program"), elfHeader(t, own), 0o555)

	tests := map[string]struct {
		reason string
		make   func(path string)
		want   string // empty if it is a candidate
	}{
		"program":      {"built for this CPU", func(path string) { write(path, elfHeader(t, own), 0o555) }, ""},
		"owner":        {"who may execute it shows when it is started", func(path string) { write(path, elfHeader(t, own), 0o700) }, ""},
		"script":       {"a script may exec a plugin", func(path string) { write(path, []byte("#!/bin/sh\nexec plugin\n"), 0o555) }, ""},
		"link":         {"volumes are full of links", func(string) { link(filepath.Join(elsewhere, "program"), "link") }, ""},
		"foreign":      {"built for another CPU", func(path string) { write(path, elfHeader(t, foreign), 0o555) }, "is built for another CPU"},
		"truncated":    {"a copy that was broken off", func(path string) { write(path, elfHeader(t, own)[:20], 0o555) }, "is no valid ELF binary"},
		"magic":        {"nothing but the magic number", func(path string) { write(path, []byte(elf.ELFMAG), 0o555) }, "is no valid ELF binary"},
		"text":         {"a text that somebody made executable", func(path string) { write(path, []byte("hello"), 0o755) }, "is no program"},
		"short":        {"shorter than a magic number", func(path string) { write(path, []byte("#"), 0o755) }, "is no program"},
		"empty":        {"nothing in it", func(path string) { write(path, nil, 0o755) }, "is no program"},
		"mode":         {"a program without the mode", func(path string) { write(path, elfHeader(t, own), 0o644) }, "is not executable (mode -rw-r--r--); chmod 0555"},
		"broken":       {"a link to nothing", func(string) { link(filepath.Join(elsewhere, "missing"), "broken") }, "cannot be read"},
		"circle":       {"a link to itself", func(string) { link("circle", "circle") }, "cannot be read"},
		"dir":          {"plugins lie directly in the directory", func(path string) { _ = os.Mkdir(path, 0o755) }, "is no regular file"},
		"link-to-dir":  {"a directory behind a link is one", func(string) { link(elsewhere, "link-to-dir") }, "is no regular file"},
		"link-to-null": {"a device blocks or never ends", func(string) { link(os.DevNull, "link-to-null") }, "is no regular file"},
	}
	want := map[string]bool{}
	for name, test := range tests {
		test.make(filepath.Join(dir, name))
		want[name] = true
	}
	write(filepath.Join(dir, ".hidden"), elfHeader(t, own), 0o555)

	candidates, err := discover(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, last := map[string]bool{}, ""
	for _, c := range candidates {
		got[c.file] = true
		if c.file < last || c.path != filepath.Join(dir, c.file) {
			t.Errorf("%s (%s) comes after %s", c.file, c.path, last)
		}
		last = c.file
		test := tests[c.file]
		if (c.refusal == nil) != (test.want == "") || c.refusal != nil && !strings.Contains(c.refusal.Error(), test.want) {
			t.Errorf("%s: %s: expected %q, but found: %v", c.file, test.reason, test.want, c.refusal)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestDiscoverSaysWhatTheHostNeeds(t *testing.T) {
	t.Parallel()
	if _, known := machines[runtime.GOARCH]; runtime.GOOS != "linux" || !known {
		t.Skip("there is nothing to compare with")
	}
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, elfHeader(t, elf.EM_MIPS), 0o700); err != nil {
		t.Fatal(err)
	}
	err := inspect(path)
	if err == nil || !strings.Contains(err.Error(), "EM_MIPS") || !strings.Contains(err.Error(), "GOARCH="+runtime.GOARCH) {
		t.Errorf("expected both CPUs to be named, but found: %v", err)
	}
}

// A refused file is there to see and takes no part in anything.
func TestRefusedFile(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "echo")
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("read me"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, dir).run()
	h.waitFor("echo", Running)
	if s := h.status("README"); s.State != Refused || s.Problem == nil {
		t.Errorf("expected it to be refused, but found %v", s)
	}
	if h.For(echoType) == nil {
		t.Error("the others do not serve")
	}
	h.end()
	if s := h.status("README"); s.State != Refused {
		t.Errorf("expected it to stay refused, but found %v", s)
	}
}
