package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var sampleRelease = release{version: "v1.2.3", revision: "0123abc", created: time.Unix(1_700_000_000, 0)}

// sample returns the image of the host, with programs for two platforms that are none.
func sample() (definition, []variant) {
	d := definitions([]byte("license"), debug.Module{Path: rootsModule, Version: "v0.1.0"})[0]
	var variants []variant
	for _, architecture := range []string{"amd64", "arm64"} {
		v := variant{platform: platform{"linux", architecture}, licenses: []file{
			{path: "/licenses/example.org@v1.0.0/", mode: dirMode},
			{path: "/licenses/example.org@v1.0.0/LICENSE", mode: fileMode, content: []byte("license of a module")},
		}}
		for _, p := range d.programs {
			v.programs = append(v.programs, program{
				placement: p, content: []byte(filepath.Base(p.path) + " for " + architecture), info: sampleInfo(architecture, "0"),
			})
		}
		variants = append(variants, v)
	}
	return d, variants
}

func sampleInfo(architecture, cgo string) *buildinfo.BuildInfo {
	const module = "github.com/pergola-deploy/pergola"
	return &buildinfo.BuildInfo{
		GoVersion: "go1.26.8", Path: module + "/host/cmd/pergola", Main: debug.Module{Path: module},
		Deps: []*debug.Module{
			{Path: "example.org/a", Version: "v1.0.0"},
			{Path: "example.org/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.org/c", Version: "v3.0.0"}},
		},
		Settings: []debug.BuildSetting{
			{Key: "-trimpath", Value: "true"}, {Key: "CGO_ENABLED", Value: cgo}, {Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: architecture},
		},
	}
}

// mustAssemble makes an image, and returns its archive as well.
func mustAssemble(t *testing.T, d definition, r release, variants []variant) (*image, []byte) {
	t.Helper()
	made, err := assemble(d, r, variants)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := made.write(&archive, d.name, r.version); err != nil {
		t.Fatal(err)
	}
	return made, archive.Bytes()
}

// buildPrograms returns a directory as `make image` makes it, for this machine, in which all programs are one that does nothing.
func buildPrograms(t *testing.T, d ...definition) (dir string) {
	t.Helper()
	dir = t.TempDir()
	of := filepath.Join(dir, "linux", runtime.GOARCH)
	if err := os.MkdirAll(filepath.Join(of, "plugins"), 0o755); err != nil {
		t.Fatal(err)
	}
	source, built := filepath.Join(dir, "nothing.go"), filepath.Join(dir, "nothing")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", built, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, d := range d {
		for _, p := range d.programs {
			if err := os.Link(built, filepath.Join(of, p.source)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// Whoever builds the same gets the same.
func TestRunTwice(t *testing.T) {
	t.Parallel()
	of := definitions(nil, debug.Module{})
	programs := buildPrograms(t, of...)
	built := func() map[string]string {
		out := t.TempDir()
		o, err := parse([]string{
			"--programs", programs, "--license", "../../LICENSE", "--out", out, "--platforms", "linux/" + runtime.GOARCH,
			"--version", "v1.2.3", "--revision", "0123abc", "--created", "1700000000",
		})
		if err == nil {
			err = run(t.Context(), o)
		}
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, d := range of {
			for _, suffix := range []string{".tar", ".spdx.json"} {
				content, err := os.ReadFile(filepath.Join(out, d.name+suffix))
				if err != nil {
					t.Fatal(err)
				}
				files[d.name+suffix] = string(content)
			}
		}
		return files
	}
	first, second := built(), built()
	for name, content := range first {
		if content != second[name] {
			t.Errorf("%s differs from build to build", name)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"it has no tag", nil, "--version: expected a version, but found nothing"},
		{"there is too much", []string{"--version", "1", "more"}, `expected nothing but flags, but found "more"`},
		{"the date is none", []string{"--version", "1", "--created", "today"}, `--created: expected seconds since 1970, but found "today"`},
		{"a platform has no CPU", []string{"--version", "1", "--platforms", "linux"},
			`--platforms: expected platforms such as linux/amd64,linux/arm64, but found "linux"`},
		{"only Linux has containers of this kind", []string{"--version", "1", "--platforms", "darwin/arm64"}, `but found "darwin/arm64"`},
		{"a platform is there twice", []string{"--version", "1", "--platforms", "linux/arm64,linux/arm64"},
			"--platforms: expected each platform once, but found linux/arm64 twice"},
	} {
		if _, err := parse(test.args); err == nil || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: expected %q, but found %v", test.reason, test.want, err)
		}
	}
	o, err := parse([]string{"--version", "1"})
	if diff := cmp.Diff([]platform{{"linux", "amd64"}, {"linux", "arm64"}}, o.platforms, cmp.AllowUnexported(platform{})); err != nil || diff != "" {
		t.Errorf("error %v, platforms (-want +got):\n%s", err, diff)
	}
}

// A program that cannot run in the image is found out before it is put there.
func TestCheck(t *testing.T) {
	t.Parallel()
	amd64 := platform{"linux", "amd64"}
	for _, test := range []struct {
		reason string
		info   *buildinfo.BuildInfo
		want   string // nothing if it may be put there
	}{
		{reason: "it is as it has to be", info: sampleInfo("amd64", "0")},
		{"it is for another CPU", sampleInfo("arm64", "0"), `GOARCH=amd64, but found "arm64": it is for another platform`},
		{"there is no C library", sampleInfo("amd64", "1"), `CGO_ENABLED=0, but found "1": it needs libraries`},
		{"nothing is known", &buildinfo.BuildInfo{}, `GOOS=linux, but found ""`},
	} {
		err := check(test.info, amd64)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: expected %q, but found %v", test.reason, test.want, err)
		}
	}
}

func TestReadPrograms(t *testing.T) {
	t.Parallel()
	d := definitions(nil, debug.Module{})[1]
	dir := buildPrograms(t, d)
	v, err := readPrograms(dir, d, platform{"linux", runtime.GOARCH})
	if err != nil || len(v.programs) != 1 || v.programs[0].path != "/helper" || len(v.programs[0].content) == 0 {
		t.Errorf("expected the helper, but found %d programs (%v)", len(v.programs), err)
	}
	if _, err := readPrograms(dir, d, platform{"linux", "other"}); err == nil || !strings.Contains(err.Error(), "linux/other/helper") {
		t.Errorf("expected an error that names the file, but found %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "linux", runtime.GOARCH, "helper.sh"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.programs[0].source = "helper.sh"
	if _, err := readPrograms(dir, d, platform{"linux", runtime.GOARCH}); err == nil || !strings.Contains(err.Error(), "read what program") {
		t.Errorf("expected a script to be refused, but found %v", err)
	}
}
