package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// open unpacks an archive, and returns what it has under a tag.
func open(t *testing.T, archive []byte, tag string) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files(t, bytes.NewReader(archive)) {
		path := filepath.Join(dir, f.header.Name)
		var err error
		if f.header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, f.content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	found, err := partial.FindIndexes(all, match.Name(tag))
	if err != nil || len(found) != 1 {
		t.Fatalf("expected one image %s, but found %d (%v)", tag, len(found), err)
	}
	return found[0]
}

type archived struct {
	header  *tar.Header
	content []byte
}

func files(t *testing.T, r io.Reader) (all []archived) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, archived{header, content})
	}
}

// imageOf returns the image for a platform.
func imageOf(t *testing.T, index v1.ImageIndex, architecture string) v1.Image {
	t.Helper()
	images, err := partial.FindImages(index, match.Platforms(v1.Platform{OS: "linux", Architecture: architecture}))
	if err != nil || len(images) != 1 {
		t.Fatalf("expected one image for %s, but found %d (%v)", architecture, len(images), err)
	}
	return images[0]
}

// TestImage reads the image by somebody else's means.
func TestImage(t *testing.T) {
	t.Parallel()
	d, variants := sample()
	_, archive := mustAssemble(t, d, sampleRelease, variants)
	index := open(t, archive, "v1.2.3")
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"org.opencontainers.image.title": "Pergola", "org.opencontainers.image.vendor": "Pergola", "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source": "https://github.com/pergola-deploy/pergola", "org.opencontainers.image.version": "v1.2.3",
		"org.opencontainers.image.revision": "0123abc", "org.opencontainers.image.created": "2023-11-14T22:13:20Z",
		"org.opencontainers.image.description": d.description,
	}
	if diff := cmp.Diff(want, manifest.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		t.Run(architecture, func(t *testing.T) {
			t.Parallel()
			image := imageOf(t, index, architecture)
			checkConfig(t, image, architecture)
			checkFiles(t, image, architecture)
		})
	}
}

func checkConfig(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != architecture || !config.Created.Equal(sampleRelease.created) {
		t.Errorf("expected linux, %s and the date of the release, but found %s, %s and %s", architecture, config.OS, config.Architecture, config.Created)
	}
	want := v1.Config{User: "65532:65532", Env: []string{"PATH=/usr/local/bin"}, Entrypoint: []string{"pergola"}, Cmd: []string{"host"}, WorkingDir: "/"}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func checkFiles(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	extracted := mutate.Extract(image)
	defer extracted.Close()
	modes := map[string]string{}
	for _, f := range files(t, extracted) {
		modes[strings.TrimSuffix(f.header.Name, "/")] = fmt.Sprintf("%04o", f.header.Mode)
		if h := f.header; h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || !h.ModTime.Equal(epoch) {
			t.Errorf("%s: expected it to be of 1970 and to belong to root, but found %s, %d %q and %d %q", h.Name, h.ModTime, h.Uid, h.Uname, h.Gid, h.Gname)
		}
		if strings.HasPrefix(f.header.Name, "plugins/m") || strings.HasPrefix(f.header.Name, "usr/local/bin/p") {
			if want := filepath.Base(f.header.Name) + " for " + architecture; string(f.content) != want {
				t.Errorf("%s: expected %q, but found %q", f.header.Name, want, f.content)
			}
		}
		if f.header.Name == "etc/ssl/certs/ca-certificates.crt" {
			checkCertificates(t, f.content)
		}
	}
	want := map[string]string{
		"etc": "0755", "etc/group": "0444", "etc/passwd": "0444", "etc/ssl": "0755", "etc/ssl/certs": "0755", "etc/ssl/certs/ca-certificates.crt": "0444",
		"licenses": "0755", "licenses/LICENSE": "0444",
		"licenses/example.org@v1.0.0": "0755", "licenses/example.org@v1.0.0/LICENSE": "0444",
		"tmp": "1777", "usr": "0755", "usr/local": "0755", "usr/local/bin": "0755",
		"usr/local/bin/pergola": "0555", "plugins": "0755",
		"plugins/manifest": "0555", "plugins/helm": "0555", "plugins/container": "0555", "plugins/mock": "0555",
	}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func checkCertificates(t *testing.T, content []byte) {
	t.Helper()
	count := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
		count++
	}
	if count < 100 {
		t.Errorf("expected the certificates that browsers trust, more than a hundred, but found %d", count)
	}
}

func TestAssembleTwice(t *testing.T) {
	t.Parallel()
	d, variants := sample()
	_, first := mustAssemble(t, d, sampleRelease, variants)
	slices.Reverse(d.base)
	_, second := mustAssemble(t, d, sampleRelease, variants)
	if !bytes.Equal(first, second) {
		t.Error("the same programs give two archives")
	}
}

// Whoever has an image already fetches of the next one what is new.
func TestNewPluginIsOneLayer(t *testing.T) {
	t.Parallel()
	d, variants := sample()
	before, _ := mustAssemble(t, d, sampleRelease, variants)
	later := sampleRelease
	later.version, later.created = "v1.2.4", later.created.AddDate(0, 1, 0)
	variants[0].programs[2].content = []byte("a new one")
	after, _ := mustAssemble(t, d, later, variants)

	known := map[string]bool{}
	for _, b := range before.blobs() {
		known[b.Digest.String()] = true
	}
	fresh := 0
	for _, b := range after.blobs() {
		if strings.Contains(b.MediaType, "layer") && !known[b.Digest.String()] {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("expected one new layer, but found %d", fresh)
	}
}
