package binaries

import (
	"bytes"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

var source = fstest.MapFS{
	"go.mod":             {Data: []byte("module m\n\nrequire (\n\tk8s.io/kubernetes v1.37.1\n)\n")},
	"go.sum":             {Data: []byte("sums\n")},
	"components/main.go": {Data: []byte("package main\n")},
}

func TestKeyDependsOnContentOnly(t *testing.T) {
	key := mustKey(t, source)
	if !strings.HasPrefix(key, "v1.37.1-") {
		t.Errorf("key = %q, want prefix v1.37.1-", key)
	}
	if again := mustKey(t, maps.Clone(source)); again != key {
		t.Errorf("keys of equal sources differ: %q and %q", key, again)
	}
	for name, change := range map[string]func(fstest.MapFS){
		"content": func(fs fstest.MapFS) { fs["go.sum"] = &fstest.MapFile{Data: []byte("other\n")} },
		"name":    func(fs fstest.MapFS) { fs["go.sums"] = fs["go.sum"]; delete(fs, "go.sum") },
		"file":    func(fs fstest.MapFS) { fs["components/more.go"] = &fstest.MapFile{} },
	} {
		t.Run(name, func(t *testing.T) {
			changed := maps.Clone(source)
			change(changed)
			if mustKey(t, changed) == key {
				t.Error("the key of another source is the same")
			}
		})
	}
}

func TestKeyNeedsKubernetesVersion(t *testing.T) {
	if _, err := Key(fstest.MapFS{"go.mod": {Data: []byte("module m\n")}}); err == nil {
		t.Error("no error for a go.mod without k8s.io/kubernetes")
	}
}

func TestLinkerFlagsSetEveryVersionVariable(t *testing.T) {
	flags := linkerFlags("v1.37.1") + " "
	for _, want := range []string{".gitVersion=v1.37.1 ", ".gitMajor=1 ", ".gitMinor=37 "} {
		if !strings.Contains(flags, want) {
			t.Errorf("flags %q lack %q", flags, want)
		}
	}
}

func TestBuildLeavesWhatIsBuiltAlone(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	set, err := Locate(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(set.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	// The source does not compile, so this passes only if nothing is built.
	var out bytes.Buffer
	if err := set.Build(t.Context(), &out); err != nil || out.Len() > 0 {
		t.Errorf("Build = %v, output %q; want nothing done", err, out.String())
	}
}

func TestFailedBuildLeavesNothingAndSaysWhy(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	set, err := Locate(source)
	if err != nil {
		t.Fatal(err)
	}
	err = set.Build(t.Context(), new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "malformed go.sum") {
		t.Errorf("Build = %v, want what the go command says of go.sum", err)
	}
	for _, path := range []string{set.home, set.home + ".partial"} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is there after a failed build", path)
		}
	}
}

func TestProgressReadsTheGoCommand(t *testing.T) {
	p := newProgress(new(bytes.Buffer))
	write := func(output string) {
		if _, err := p.Write([]byte(output)); err != nil {
			t.Fatal(err)
		}
	}
	write("go: downloading example.com/a v1.0.0\ngo: downl")
	write("oading example.com/b v1.0.0\n")
	if got := p.state(); !strings.Contains(got, "2 modules") {
		t.Errorf("state = %q, want 2 modules", got)
	}
	p.expect([]byte("a\nb\nc\n"))
	write("a\nexample.com/b\n# example.com/b\nb.go:1:1: expected declaration\n")
	if got := p.state(); !strings.Contains(got, "2 of at most 3") {
		t.Errorf("state = %q, want 2 of at most 3", got)
	}
	if got, want := p.rest(), "# example.com/b\nb.go:1:1: expected declaration"; got != want {
		t.Errorf("rest = %q, want %q", got, want)
	}
}

func mustKey(t *testing.T, fs fstest.MapFS) string {
	t.Helper()
	key, err := Key(fs)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
