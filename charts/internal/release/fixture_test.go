package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// helm is the Helm that users have, from the root of the repository.
const helm = "bin/tools/helm"

func runHelm(t *testing.T, arguments ...string) string {
	t.Helper()
	if _, err := os.Stat(helm); err != nil {
		t.Fatalf("this test needs the Helm CLI: run `make %s`: %v", helm, err)
	}
	command := exec.CommandContext(t.Context(), helm, arguments...)
	var problem bytes.Buffer
	command.Stderr = &problem
	out, err := command.Output()
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", arguments, err, problem.String())
	}
	return string(out)
}

// buildProgram builds a program that does nothing.
func buildProgram(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/nothing\n\ngo 1.26\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", "nothing")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return []byte(contents(t, dir)["nothing"])
}

// writeImage writes an image with these files, for two platforms, as make image does, and returns its digest.
func writeImage(t *testing.T, dir, name string, files fstest.MapFS) v1.Hash {
	t.Helper()
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	if err := errors.Join(archive.AddFS(files), archive.Close()); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	index := v1.ImageIndex(empty.Index)
	for _, architecture := range []string{"amd64", "arm64"} {
		image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: architecture})
		if err == nil {
			image, err = mutate.AppendLayers(image, layer)
		}
		if err != nil {
			t.Fatal(err)
		}
		platform := v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: platform})
	}
	path, err := layout.Write(filepath.Join(dir, name), empty.Index)
	if err == nil {
		packed := filepath.Join(dir, name+".tar")
		err = errors.Join(path.AppendIndex(index), os.WriteFile(packed, []byte("layout of "+name), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// contents are the files of a directory, by their names.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(content)
	}
	return files
}
