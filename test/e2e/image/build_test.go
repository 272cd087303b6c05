package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/pergola-deploy/pergola/test/testenv"
)

const goarch = runtime.GOARCH

// buildHello builds the plugin of the page as an author does: in a module of its own, which has the sdk of this repository and nothing else.
func buildHello(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	for from, to := range map[string]string{"sdk/examples/hello/main.go": "main.go", "go.sum": "go.sum"} {
		content, err := os.ReadFile(filepath.Join(testenv.Root(), from))
		if err != nil {
			return fmt.Errorf("read %s: %w", from, err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), content, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", to, err)
		}
	}
	for _, command := range []string{
		"go mod init example.org/hello",
		"go mod edit -require=github.com/pergola-deploy/pergola@v0.0.0 -replace=github.com/pergola-deploy/pergola=" + testenv.Root(),
		"go mod tidy",
	} {
		if _, err := shell(ctx, dir, command); err != nil {
			return err
		}
	}
	builds, err := blocks("sh")
	if err != nil {
		return err
	}
	for _, script := range builds {
		if strings.Contains(script, "go build") {
			_, err := shell(ctx, dir, script)
			return err
		}
	}
	return fmt.Errorf("%s does not build the plugin", page)
}

// makeImage makes an image as a Dockerfile of the page has it, which uses a part of the language only, and gives it to the node by this name.
func makeImage(t *testing.T, imageName, begin string) {
	t.Helper()
	dockerfiles, err := blocks("dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, dockerfile := range dockerfiles {
		if !strings.HasPrefix(dockerfile, begin) {
			continue
		}
		image := empty.Image
		for line := range strings.Lines(dockerfile) {
			instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			image = follow(t, image, instruction, rest)
		}
		give(t, image, imageName)
		return
	}
	t.Fatalf("%s has no Dockerfile that begins with %q", page, begin)
}

// follow carries out an instruction of a Dockerfile.
func follow(t *testing.T, image v1.Image, instruction, rest string) v1.Image {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(rest)
	changed := *config.DeepCopy()
	switch instruction {
	case "FROM":
		if rest == hostImage {
			return assembled(t)
		}
		changed.OS, changed.Architecture = "linux", goarch
	case "COPY":
		mode, err := strconv.ParseInt(strings.TrimPrefix(fields[0], "--chmod="), 8, 64)
		if err != nil {
			t.Fatal(err)
		}
		return withFile(t, image, filepath.Join(work, "module", fields[1]), fields[2], mode)
	case "USER":
		changed.Config.User = rest
	case "ENTRYPOINT":
		if err := json.Unmarshal([]byte(rest), &changed.Config.Entrypoint); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("expected an instruction that this test knows, but found %s", instruction)
	}
	image, err = mutate.ConfigFile(image, &changed)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// withFile is an image with one more layer, as COPY makes it.
func withFile(t *testing.T, image v1.Image, from, to string, mode int64) v1.Image {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(to, "/"), Mode: mode, Size: int64(len(content))}
	if err := archive.WriteHeader(header); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err = mutate.AppendLayers(image, layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// assembled is the image of the archive.
func assembled(t *testing.T) v1.Image {
	t.Helper()
	file, err := os.Open(built("test-image", "pergola.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	dir := t.TempDir()
	unpack(t, tar.NewReader(file), dir)
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	named, err := partial.FindIndexes(index, match.Name(strings.TrimPrefix(hostImage, "localhost/pergola:")))
	if err != nil || len(named) != 1 {
		t.Fatalf("expected one image %s in the archive, but found %d (%v)", hostImage, len(named), err)
	}
	images, err := partial.FindImages(named[0], match.Platforms(v1.Platform{OS: "linux", Architecture: goarch}))
	if err != nil || len(images) != 1 {
		t.Fatalf("expected one image for this machine in the archive, but found %d (%v)", len(images), err)
	}
	return images[0]
}

func unpack(t *testing.T, archive *tar.Reader, dir string) {
	t.Helper()
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var content []byte
			if content, err = io.ReadAll(archive); err == nil {
				err = os.WriteFile(path, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// give gives the node an image by a name.
func give(t *testing.T, image v1.Image, imageName string) {
	t.Helper()
	tag, err := name.NewTag(imageName)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
	if err := node.Import(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
}
