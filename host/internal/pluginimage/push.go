package pluginimage

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing/fstest" // for MapFS

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// PlatformOf returns the platform in the header of a program, such as linux/amd64. ELF counts as Linux. It is empty
// without a known header, such as for a script.
func PlatformOf(program []byte) string {
	if file, err := elf.NewFile(bytes.NewReader(program)); err == nil {
		return map[elf.Machine]string{elf.EM_X86_64: "linux/amd64", elf.EM_AARCH64: "linux/arm64"}[file.Machine]
	}
	if file, err := macho.NewFile(bytes.NewReader(program)); err == nil {
		return map[macho.Cpu]string{macho.CpuAmd64: "darwin/amd64", macho.CpuArm64: "darwin/arm64"}[file.Cpu]
	}
	return ""
}

// Push pushes an image with the program of each platform, at a path, and nothing else. Equal programs make equal
// images. It returns the reference with the digest.
func Push(ctx context.Context, to, path string, programs map[string][]byte) (image string, err error) {
	tag, err := name.NewTag(to, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("expected an image such as registry.example.org/team/thing:v1, but found %q", to)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range slices.Sorted(maps.Keys(programs)) {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return "", fmt.Errorf("platform %s: %w", text, err)
		}
		files := fstest.MapFS{strings.TrimPrefix(path, "/"): {Mode: 0o555, Data: programs[text]}}
		one, err := assemble(files, &v1.ConfigFile{
			OS: platform.OS, Architecture: platform.Architecture, RootFS: v1.RootFS{Type: "layers"},
			Config: v1.Config{Entrypoint: []string{path}}, // made with the sdk, it installs itself
		})
		if err != nil {
			return "", fmt.Errorf("image for %s: %w", text, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{Platform: platform}})
	}
	err = remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return "", fmt.Errorf("push image %s: %w", to, err)
	}
	digest, err := index.Digest()
	return tag.String() + "@" + digest.String(), err
}

// assemble makes the image of a platform, of one layer. Its files belong to root and have no date, so that equal files
// make equal images.
func assemble(files fs.FS, config *v1.ConfigFile) (v1.Image, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	if err := errors.Join(archive.AddFS(files), archive.Close()); err != nil {
		return nil, fmt.Errorf("pack files: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	return mutate.AppendLayers(image, layer)
}
