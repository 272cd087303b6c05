package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"debug/buildinfo"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func TestLicensesIn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason  string
		source  []string // its files
		shallow bool
		want    []string // none if there is no license
	}{
		{reason: "most are called so", source: []string{"LICENSE", "README.md", "go.mod", "main.go"}, want: []string{"LICENSE"}},
		{reason: "case and ending are up to the author", source: []string{"License", "licence.md"}, want: []string{"License", "licence.md"}},
		{reason: "the ending may be a name", source: []string{"LICENSE.MPL-2.0", "LICENSE-BSD"}, want: []string{"LICENSE-BSD", "LICENSE.MPL-2.0"}},
		{reason: "there are other names", source: []string{"COPYING", "UNLICENSE", "MIT-LICENSE.txt"}, want: []string{"COPYING", "MIT-LICENSE.txt", "UNLICENSE"}},
		{
			reason: "some licenses demand what else there is to be passed on",
			source: []string{"LICENSE", "NOTICE", "NOTICE.txt", "PATENTS", "COPYRIGHT", "THIRD_PARTY_NOTICES.md", "third-party-licenses"},
			want:   []string{"COPYRIGHT", "LICENSE", "NOTICE", "NOTICE.txt", "PATENTS", "THIRD_PARTY_NOTICES.md", "third-party-licenses"},
		},
		{reason: "a notice is no license", source: []string{"NOTICE", "PATENTS", "COPYRIGHT"}},
		{reason: "what is about licenses is none", source: []string{"license.go", "check-license.sh", "licensed", "noticeable.md"}},
		{reason: "a directory is no license", source: []string{"license/main.go"}},
		{
			reason: "what a module has taken over is under the license of others",
			source: []string{"LICENSE", "internal/json/LICENSE", "internal/json/json.go", "third_party/forked/go/PATENTS"},
			want:   []string{"LICENSE", "internal/json/LICENSE", "third_party/forked/go/PATENTS"},
		},
		{
			reason: "what is no package is in no program",
			source: []string{"LICENSE", "testdata/LICENSE", "pkg/testdata/chart/LICENSE", ".github/LICENSE", "_examples/LICENSE"},
			want:   []string{"LICENSE"},
		},
		{reason: "that of a part is not that of the whole", source: []string{"internal/json/LICENSE", "main.go"}},
		{
			reason: "Go's own source holds tools, too", shallow: true,
			source: []string{"LICENSE", "PATENTS", "src/cmd/vendor/rsc.io/markdown/LICENSE"}, want: []string{"LICENSE", "PATENTS"},
		},
		{reason: "there is nothing"},
	} {
		source, want := fstest.MapFS{}, map[string][]byte{}
		for _, name := range test.source {
			source[name] = &fstest.MapFile{Data: []byte("text of " + name)}
		}
		for _, name := range test.want {
			want[name] = []byte("text of " + name)
		}
		found, err := licensesIn(source, !test.shallow)
		if errors.Is(err, errNoLicense) != (test.want == nil) || err != nil && test.want != nil {
			t.Errorf("%s: expected an error only if there is no license, but found %v", test.reason, err)
		}
		if diff := cmp.Diff(want, found); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.reason, diff)
		}
	}
}

// This program has many modules, so each of the usual licenses is among them.
func TestReadLicensesOfThisProgram(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v := variant{programs: []program{{info: info}, {info: info}}}
	modules := v.modules()
	if len(modules) != len(info.Deps)+1 {
		t.Errorf("expected the %d modules of this program once, and Go, but found %d", len(info.Deps), len(modules))
	}
	files, err := readLicenses(t.Context(), modules)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range files {
		texts[f.path] = string(f.content)
	}
	if len(texts) != len(files) || !slices.IsSortedFunc(files, byPath) {
		t.Error("expected each file once, and all in order")
	}
	for _, m := range modules {
		if _, there := texts[licensesOf(m)]; !there {
			t.Errorf("%s is missing", nameOf(m))
		}
	}
	sources, err := findSources(t.Context(), modules)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if want, err := os.ReadFile(filepath.Join(sources[nameOf(*m)], "LICENSE")); err == nil && texts[licensesOf(*m)+"LICENSE"] != string(want) {
			t.Errorf("%s: expected the license of its source, but found %.100q", nameOf(*m), texts[licensesOf(*m)+"LICENSE"])
		}
	}
}

// An image with a gap is not made. Not parallel: where modules come from is in the environment.
func TestReadLicensesNamesModule(t *testing.T) { //nolint:paralleltest // see above
	served := t.TempDir()
	serve(t, served, "example.org/bare", "go.mod", "NOTICE")
	serve(t, served, "example.org/licensed", "go.mod", "LICENSE")
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(served))
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-modcacherw")
	for _, test := range []struct {
		reason, module, version string
		want                    string // nothing if it may be in an image
	}{
		{reason: "it has a license, and is fetched", module: "example.org/licensed", version: "v1.0.0"},
		{
			reason: "it has a notice only", module: "example.org/bare", version: "v1.0.0",
			want: "read licenses of module example.org/bare@v1.0.0: " + errNoLicense.Error(),
		},
		{
			reason: "there is no such module", module: "example.org/other", version: "v1.0.0",
			want: "find the source of module example.org/other@v1.0.0: ",
		},
		{
			reason: "a directory has taken its place", module: "../fork",
			want: "find the sources of modules: ",
		},
	} {
		_, err := readLicenses(t.Context(), []debug.Module{{Path: "example.org/licensed", Version: "v1.0.0"}, {Path: test.module, Version: test.version}})
		if (err == nil) != (test.want == "") || err != nil && (!strings.HasPrefix(err.Error(), test.want) || !strings.Contains(err.Error(), test.module)) {
			t.Errorf("%s: expected %q and the module, but found %v", test.reason, test.want, err)
		}
	}
}

// serve lays out version v1.0.0 of a module as a proxy of Go serves it.
func serve(t *testing.T, dir, module string, names ...string) {
	t.Helper()
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, name := range names {
		w, err := archive.Create(module + "@v1.0.0/" + name)
		if err == nil {
			_, err = w.Write([]byte("module " + module + "\n"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	versions := filepath.Join(dir, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(versions, 0o700); err != nil {
		t.Fatal(err)
	}
	for ending, content := range map[string]string{"info": `{"Version":"v1.0.0"}`, "mod": "module " + module + "\n", "zip": packed.String()} {
		if err := os.WriteFile(filepath.Join(versions, "v1.0.0."+ending), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunWritesLicenses: images have the licenses of what is in them, and --licenses writes the same for who makes images by other means.
func TestRunWritesLicenses(t *testing.T) {
	t.Parallel()
	of := definitions(nil, debug.Module{})
	images, unpacked := t.TempDir(), t.TempDir()
	args := []string{"--programs", buildPrograms(t, of...), "--license", "../../LICENSE", "--platforms", "linux/" + runtime.GOARCH, "--version", "v1.2.3"}
	for _, more := range [][]string{{"--out", images}, {"--out", filepath.Join(unpacked, "none"), "--licenses", unpacked}} {
		o, err := parse(slices.Concat(args, more))
		if err == nil {
			err = run(t.Context(), o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	roots, err := builtWith(rootsModule)
	if err != nil {
		t.Fatal(err)
	}
	goRoot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	ofGo := "licenses/stdlib@" + strings.TrimPrefix(runtime.Version(), "go") + "/"
	for _, d := range of {
		want := map[string]string{"licenses/LICENSE": text(t, "../../LICENSE"), "licenses/README": licenseGuide}
		for _, name := range []string{"LICENSE", "PATENTS"} {
			want[ofGo+name] = text(t, filepath.Join(strings.TrimSpace(string(goRoot)), name))
		}
		if len(d.data) > 0 {
			want["licenses/"+nameOf(roots)+"/LICENSE"] = want[ofGo+"LICENSE"] // they have the same authors
		}
		if diff := cmp.Diff(want, licensesOfImage(t, filepath.Join(images, d.name+".tar"))); diff != "" {
			t.Errorf("%s: licenses in the image (-want +got):\n%s", d.name, diff)
		}
		delete(want, "licenses/LICENSE") // who makes images has it
		if diff := cmp.Diff(want, texts(t, filepath.Join(unpacked, d.name))); diff != "" {
			t.Errorf("%s: licenses that were written (-want +got):\n%s", d.name, diff)
		}
	}
	if entries, err := os.ReadDir(unpacked); err != nil || len(entries) != len(of) {
		t.Errorf("expected a directory for each image and nothing else, but found %v (%v)", entries, err)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// texts are the files below a directory, which nobody may write.
func texts(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err != nil || info.Mode() != fileMode {
			t.Errorf("%s: expected that nobody may write it, but found %s (%v)", path, info.Mode(), err)
		}
		name, err := filepath.Rel(root, path)
		found[filepath.ToSlash(name)] = text(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// licensesOfImage are the licenses in an archive.
func licensesOfImage(t *testing.T, archive string) map[string]string {
	t.Helper()
	extracted := mutate.Extract(imageOf(t, open(t, []byte(text(t, archive)), "v1.2.3"), runtime.GOARCH))
	defer extracted.Close()
	found := map[string]string{}
	for _, f := range files(t, extracted) {
		if strings.HasPrefix(f.header.Name, "licenses/") && f.header.Typeflag == tar.TypeReg {
			found[f.header.Name] = string(f.content)
		}
	}
	return found
}
