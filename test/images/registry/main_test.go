package main

import (
	"archive/tar"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const wellFormed = `[{"Config": "config.json", "RepoTags": ["private/step:1"], "Layers": ["layer.tar"]}]`

func TestServesOneClient(t *testing.T) {
	archive := writeArchive(t, map[string]string{"manifest.json": wellFormed, "config.json": "the config", "layer.tar": "the layer"})
	var ref strings.Builder
	registry, err := start([]string{"-archive", archive, "-user", "me", "-password", "secret"}, &ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	host, found := strings.CutSuffix(ref.String(), "/private/step:1\n")
	if !found || !strings.HasPrefix(host, "127.0.0.1:") {
		t.Fatalf("expected an image on 127.0.0.1, but found %q", &ref)
	}

	const manifests, blobs = "/v2/private/step/manifests/", "/v2/private/step/blobs/"
	for reason, password := range map[string]string{"no password": "", "a wrong password": "guess"} {
		if status, _ := get(t, host, manifests+"1", password); status != http.StatusUnauthorized {
			t.Errorf("expected 401 for %s, but found %d", reason, status)
		}
	}
	status, content := get(t, host, manifests+"1", "secret")
	var manifest v1.Manifest
	if err := json.Unmarshal(content, &manifest); status != http.StatusOK || err != nil || len(manifest.Layers) != 1 {
		t.Fatalf("expected a manifest with one layer, but found %d: %s", status, content)
	}
	for digest, want := range map[v1.Hash]string{manifest.Config.Digest: "the config", manifest.Layers[0].Digest: "the layer"} {
		if status, content := get(t, host, blobs+digest.String(), "secret"); status != http.StatusOK || string(content) != want {
			t.Errorf("expected %s, but found %d: %s", want, status, content)
		}
	}
}

func TestRefusesArchives(t *testing.T) {
	for _, test := range []struct{ reason, manifest, want string }{
		{reason: "it has no manifest", want: "read archive's manifest"},
		{reason: "it has no image", manifest: `[]`, want: "not one image"},
		{reason: "it has two images", manifest: `[{"RepoTags": ["a:1"]}, {"RepoTags": ["b:1"]}]`, want: "not one image"},
		{reason: "the image has two names", manifest: `[{"RepoTags": ["a:1", "b:1"]}]`, want: "not one image"},
		{reason: "the name has no tag", manifest: `[{"RepoTags": ["a"]}]`, want: `"a" has no tag`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			files := map[string]string{}
			if test.manifest != "" {
				files["manifest.json"] = test.manifest
			}
			_, err := start([]string{"-archive", writeArchive(t, files)}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("expected an error with %q, but found %v", test.want, err)
			}
		})
	}
}

func writeArchive(t *testing.T, files map[string]string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "image.tar")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive := tar.NewWriter(file)
	for name, content := range files {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// get asks as the user me, unless there is no password.
func get(t *testing.T, host, path, password string) (status int, content []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		request.SetBasicAuth("me", password)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if content, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, content
}
