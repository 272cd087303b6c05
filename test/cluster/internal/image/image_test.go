package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/pergola-deploy/pergola/test/cluster/internal/image"
)

var app = image.Image{Name: "localhost/app:1", User: "65534", Command: "app", Binary: []byte("binary")}

func TestArchiveHoldsWhatRuntimesImport(t *testing.T) {
	archive := read(t, write(t))
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	unmarshal(t, archive["manifest.json"].content, &manifest)
	if len(manifest) != 1 || len(manifest[0].Layers) != 1 || !slices.Equal(manifest[0].RepoTags, []string{app.Name}) {
		t.Fatalf("manifest = %+v, want one image %s of one layer", manifest, app.Name)
	}

	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	unmarshal(t, archive[manifest[0].Config].content, &config)
	if config.Config.User != app.User || !slices.Equal(config.Config.Entrypoint, []string{"/app"}) {
		t.Errorf("config = %+v, want user %s and entry point /app", config, app.User)
	}
	layer := archive[manifest[0].Layers[0]].content
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); !slices.Equal(config.RootFS.DiffIDs, []string{want}) {
		t.Errorf("layers = %v, want %s", config.RootFS.DiffIDs, want)
	}

	binary := read(t, layer)["app"]
	if !bytes.Equal(binary.content, app.Binary) || binary.mode != 0o755 {
		t.Errorf("binary = %q with mode %o, want %q with mode 755", binary.content, binary.mode, app.Binary)
	}
}

func TestEqualImagesAreEqualBytes(t *testing.T) {
	if !bytes.Equal(write(t), write(t)) {
		t.Error("two archives of one image differ")
	}
}

func TestImagesOfTwoNamesHaveTwoConfigs(t *testing.T) {
	configs := map[string]bool{}
	for _, name := range []string{"localhost/app:1", "localhost/app:2"} {
		other := app
		other.Name = name
		var archive bytes.Buffer
		if err := image.Write(&archive, other); err != nil {
			t.Fatal(err)
		}
		var manifest []struct{ Config string }
		unmarshal(t, read(t, archive.Bytes())["manifest.json"].content, &manifest)
		configs[manifest[0].Config] = true
	}
	if len(configs) != 2 {
		t.Errorf("configs = %v, want two", configs)
	}
}

func write(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := image.Write(&out, app); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type file struct {
	mode    int64
	content []byte
}

func read(t *testing.T, archive []byte) map[string]file {
	t.Helper()
	files := map[string]file{}
	for reader := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = file{header.Mode, content}
	}
}

func unmarshal(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("parse %q: %v", content, err)
	}
}
