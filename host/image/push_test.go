package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/pergola-deploy/pergola/test/chartserver"
)

// Not parallel: where docker keeps credentials is in the environment.
func TestPush(t *testing.T) { //nolint:paralleltest // see above
	server, err := chartserver.NewRegistry(chartserver.Options{PlainHTTP: true, Auth: chartserver.Bearer, User: "anna", Password: "open-sesame"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	d, variants := sample()
	made, packed := mustAssemble(t, d, sampleRelease, variants)
	archive := filepath.Join(t.TempDir(), "pergola.tar")
	if err := os.WriteFile(archive, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	repository := server.Host() + "/team/pergola"

	t.Setenv("DOCKER_CONFIG", t.TempDir())
	if _, err := push(t.Context(), archive, repository, "v1.2.3"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("expected a push without credentials to be refused, but found %v", err)
	}
	logIn(t, server.Host())
	for range 2 { // the second time everything is there
		pushed, err := push(t.Context(), archive, repository, "v1.2.3")
		if err != nil || pushed.Digest != made.index.Digest {
			t.Fatalf("expected %s to be pushed, but found %s (%v)", made.index.Digest, pushed.Digest, err)
		}
	}
	if _, err := push(t.Context(), archive, repository, "v9"); err == nil || !strings.Contains(err.Error(), "push to "+repository+":v9") {
		t.Errorf("expected an error for a tag that the archive does not have, but found %v", err)
	}

	checkPulled(t, repository, made)
}

// checkPulled pulls an image from a repository, and what refers to it.
func checkPulled(t *testing.T, repository string, made *image) {
	t.Helper()
	from, err := remote.NewRepository(repository)
	if err != nil {
		t.Fatal(err)
	}
	from.PlainHTTP = true
	from.Client = &auth.Client{Credential: auth.StaticCredential(from.Reference.Host(), auth.Credential{Username: "anna", Password: "open-sesame"})}
	pulled := memory.New()
	copied, err := oras.Copy(t.Context(), from, "v1.2.3", pulled, "", oras.DefaultCopyOptions)
	if err != nil || copied.Digest != made.index.Digest {
		t.Fatalf("expected to pull %s, but found %s (%v)", made.index.Digest, copied.Digest, err)
	}
	for _, b := range made.rest {
		if there, err := pulled.Exists(t.Context(), b.Descriptor); err != nil || !there && b.MediaType != ocispec.MediaTypeEmptyJSON {
			t.Errorf("expected %s %s to be pulled, but found %t (%v)", b.MediaType, b.Digest, there, err)
		}
	}
	referrers, err := registry.Referrers(t.Context(), from, copied, sbomType)
	if err != nil || len(referrers) != 1 || referrers[0].Digest != made.referrer.Digest {
		t.Fatalf("expected the SBOM to refer to the image, but found %+v (%v)", referrers, err)
	}
	text, err := content.FetchAll(t.Context(), from, made.sbom.Descriptor)
	if err != nil || !bytes.Equal(text, made.sbom.content) {
		t.Errorf("the SBOM in the registry is not the one of the image (%v): %.100s", err, text)
	}
}

// TestRunPushes: all images that are built are pushed, each under its name and the version.
func TestRunPushes(t *testing.T) {
	t.Parallel()
	server, err := chartserver.NewRegistry(chartserver.Options{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	of := definitions(nil, debug.Module{})
	o, err := parse([]string{
		"--programs", buildPrograms(t, of...), "--license", "../../LICENSE", "--out", t.TempDir(), "--platforms", "linux/" + runtime.GOARCH,
		"--version", "v1.2.3", "--push", server.Host() + "/team/",
	})
	if err == nil {
		err = run(t.Context(), o)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range of {
		from, err := remote.NewRepository(server.Host() + "/team/" + d.name)
		if err != nil {
			t.Fatal(err)
		}
		from.PlainHTTP = true
		if found, err := from.Resolve(t.Context(), "v1.2.3"); err != nil || found.MediaType != ocispec.MediaTypeImageIndex {
			t.Errorf("%s: expected an index, but found %s (%v)", d.name, found.MediaType, err)
		}
	}
}

// logIn leaves credentials where docker login leaves them.
func logIn(t *testing.T, host string) {
	t.Helper()
	path := filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json")
	if err := os.WriteFile(path, chartserver.DockerConfig(host, "anna", "open-sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOnThisMachine(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1:5000": true, "localhost": true, "localhost:5000": true, "[::1]:5000": true, "127.0.0.2": true,
		"registry.example.org": false, "registry.example.org:5000": false, "localhost.example.org": false, "10.0.0.1:5000": false,
	} {
		if got := onThisMachine(host); got != want {
			t.Errorf("%s: expected %t, but found %t", host, want, got)
		}
	}
}
