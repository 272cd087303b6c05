package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
)

// TestRun makes a release twice, pushes it, and uses what is in the registry.
func TestRun(t *testing.T) { //nolint:paralleltest // it changes the directory
	if testing.Short() {
		t.Skip("it needs the Helm CLI")
	}
	t.Chdir("../../..")
	program := buildProgram(t)
	t.Setenv("HOME", t.TempDir()) // where Helm has its credentials and its cache, and Go has its own
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	team := strings.TrimPrefix(server.URL, "http://") + "/team"
	o := options{
		images: t.TempDir(), helm: helm, version: "v1.2.3", revision: "0123abc", created: 1_700_000_000, push: team + "/",
		changelog: filepath.Join(t.TempDir(), "CHANGELOG.md"),
	}
	if err := os.WriteFile(o.changelog, []byte("\n## [1.2.3] - 2023-11-14\n\n- Hooks.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := writeImage(t, o.images, "pergola", fstest.MapFS{
		"etc/passwd":                {Mode: 0o444},
		"licenses/LICENSE":          {Mode: 0o444, Data: []byte("license")},
		"licenses/a.b/c@v1/COPYING": {Mode: 0o444, Data: []byte("license of c")},
		"plugins/mock":              {Mode: 0o555, Data: program},
		"usr/local/bin/pergola":     {Mode: 0o555, Data: program},
	})
	writeImage(t, o.images, "container-helper", fstest.MapFS{"helper": {Mode: 0o555, Data: program}})
	charts := t.TempDir()
	runHelm(t, "package", "charts/pergola", "--version", "1.2.3", "--app-version", o.version, "--destination", charts)
	o.chart = filepath.Join(charts, "pergola-1.2.3.tgz")

	var made []map[string]string
	var pushed []string
	for range 2 {
		o.out = filepath.Join(t.TempDir(), "release")
		if err := run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		chart, err := crane.Digest(team + "/charts/pergola:1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		made, pushed = append(made, contents(t, o.out)), append(pushed, chart)
	}
	for name, content := range made[1] {
		if content != made[0][name] {
			t.Errorf("%s: expected the same bytes each time, but found others", name)
		}
	}
	if pushed[0] != pushed[1] {
		t.Errorf("expected the same chart in the registry each time, but found %v", pushed)
	}
	checkFiles(t, o.out)
	checkArchive(t, filepath.Join(o.out, "pergola-v1.2.3-linux-arm64.tar.gz"))
	about := made[1]["RELEASE.md"]
	for _, want := range []string{
		"0123abc", digest.String(), "--version 1.2.3", "PLATFORMS=linux/amd64,linux/arm64", "\n- Hooks.\n",
	} {
		if !strings.Contains(about, want) {
			t.Errorf("RELEASE.md: expected %q, but found\n%s", want, about)
		}
	}
	checkPushedChart(t, o.out, "oci://"+team+"/charts/pergola", digest.String())
}

// checkFiles looks at what files there are, and has their checksums checked as users do.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(contents(t, dir)))
	want := []string{
		"RELEASE.md", "SHA256SUMS", "container-helper-v1.2.3-image.tar", "crds.yaml", "pergola-1.2.3.tgz",
		"pergola-v1.2.3-image.tar", "pergola-v1.2.3-linux-amd64.tar.gz", "pergola-v1.2.3-linux-arm64.tar.gz", "sbom.cdx.json",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	check := exec.CommandContext(t.Context(), "sha256sum", "--strict", "-c", "SHA256SUMS")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != len(want)-1 {
		t.Errorf("expected the checksums of all files, but found %v\n%s", err, out)
	}
}

// checkArchive looks at what an archive of the host has.
func checkArchive(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = fmt.Sprintf("%04o", header.Mode)
		if header.Linkname != "" {
			got[header.Name] = "to " + header.Linkname
		}
	}
	const dir = "pergola-v1.2.3-linux-arm64/"
	want := map[string]string{
		dir: "0755", dir + "pergola": "0755",
		dir + "kubectl-pergola": "to pergola", dir + "kubectl_complete-pergola": "0755",
		dir + "plugins/": "0755", dir + "plugins/mock": "0755",
		dir + "licenses/": "0755", dir + "licenses/LICENSE": "0644",
		dir + "licenses/a.b/": "0755", dir + "licenses/a.b/c@v1/": "0755", dir + "licenses/a.b/c@v1/COPYING": "0644",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

// checkPushedChart pulls the chart, compares it with the one of the release, and renders it, without values and with
// those that the page has.
func checkPushedChart(t *testing.T, release, from, digest string) {
	t.Helper()
	pulled := t.TempDir()
	runHelm(t, "pull", from, "--version", "1.2.3", "--plain-http", "--destination", pulled)
	made := contents(t, release)
	if got := contents(t, pulled)["pergola-1.2.3.tgz"]; got != made["pergola-1.2.3.tgz"] {
		t.Error("expected to pull the chart of the release, byte by byte, but found another one")
	}
	render := []string{"template", "pergola", from, "--version", "1.2.3", "--plain-http", "--kube-version", "1.33.0"}
	values := regexp.MustCompile(`--set \S+`).FindAllString(made["RELEASE.md"], -1)
	renderWithValues := append(slices.Clone(render), strings.Fields(strings.Join(values, " "))...)
	for want, arguments := range map[string][]string{
		"image: ghcr.io/pergola-deploy/pergola:v1.2.3\n":            render,
		"image: registry.example.org/team/pergola@" + digest + "\n": renderWithValues,
	} {
		if rendered := runHelm(t, arguments...); !strings.Contains(rendered, want) {
			t.Errorf("expected %q, but found\n%s", want, rendered)
		}
	}
}

// TestChangesOf finds the changes of a version, and makes no release without them or their date.
func TestChangesOf(t *testing.T) {
	t.Parallel()
	const changelog = "# Changelog\n\n## [1.10.0] - Unreleased\n\n- New.\n\n" +
		"## [1.1.0] - 2026-11-30\n\n### Added\n\n- Hooks\n[of plugins].\n\n" +
		"## [1.0.0] - 2026-10-01\n\n- First.\n\n[1.0.0]: https://example.org\n"
	for version, want := range map[string][2]string{
		"v1.1.0":         {"### Added\n\n- Hooks\n[of plugins].", ""},
		"v1.0.0":         {"- First.", ""},
		"v1.10.0":        {"", "expected the date of [1.10.0], but found \"Unreleased\""},
		"v1":             {"", "expected a section ## [1] - DATE"},
		"134881b2-dirty": {"", ""},
	} {
		got := [2]string{}
		changes, err := changesOf(changelog, version)
		if got[0] = changes; err != nil {
			got[1] = err.Error()
		}
		if got != want {
			t.Errorf("%s: expected %q, but found %q", version, want, got)
		}
	}
}

// TestUnknownProgram makes no release whose SBOM would lack a program.
func TestUnknownProgram(t *testing.T) {
	t.Parallel()
	o := options{images: t.TempDir(), version: "v1.2.3", out: t.TempDir()}
	writeImage(t, o.images, "pergola", fstest.MapFS{"plugins/script": {Mode: 0o555, Data: []byte("#!/bin/sh\n")}})
	if err := run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "plugins/script") {
		t.Errorf("expected an error that names plugins/script, but found %v", err)
	}
}
