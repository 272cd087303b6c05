package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing/fstest" // which has a file system of a map

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// hostImage is the image for the archives.
const hostImage = "pergola"

// completion is the program by which kubectl completes words of its plugin.
const completion = "#!/bin/sh\nexec kubectl pergola __complete \"$@\"\n"

// image is an image of the release: its name, its file, and its digest in all registries.
type image struct{ Name, File, Digest string }

// program is a program of an image, and how it was built.
type program struct {
	image, platform, path string
	sum                   string // SHA-256, in hex
	info                  *debug.BuildInfo
}

// addImage adds an image, its programs, and its archives.
func (r *release) addImage(name string) error {
	dir := filepath.Join(r.options.images, name)
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return fmt.Errorf("read layout: %w", err)
	}
	images, err := root.IndexManifest()
	if err != nil {
		return fmt.Errorf("read layout: %w", err)
	}
	if len(images.Manifests) != 1 {
		return fmt.Errorf("expected one image in %s, but found %d: run make image", dir, len(images.Manifests))
	}
	index, err := root.ImageIndex(images.Manifests[0].Digest)
	if err != nil {
		return fmt.Errorf("read layout: %w", err)
	}
	platforms, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("read layout: %w", err)
	}
	for _, platform := range platforms.Manifests {
		if err := r.addPlatform(name, index, platform); err != nil {
			return fmt.Errorf("platform %s: %w", platform.Platform, err)
		}
	}
	packed, err := os.ReadFile(dir + ".tar")
	if err != nil {
		return err
	}
	file := name + "-" + r.options.version + "-image.tar"
	r.images = append(r.images, image{name, file, images.Manifests[0].Digest.String()})
	return r.write(file, packed)
}

// addPlatform adds the programs of an image on a platform, and their archive.
func (r *release) addPlatform(name string, index v1.ImageIndex, platform v1.Descriptor) error {
	image, err := index.Image(platform.Digest)
	if err != nil {
		return fmt.Errorf("read layout: %w", err)
	}
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }() // it was only read
	files, err := unpack(content)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if !isProgram(files[path]) {
			continue
		}
		info, err := buildinfo.Read(bytes.NewReader(files[path].Data))
		if err != nil {
			return fmt.Errorf("read how %s was built: %w", path, err)
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(files[path].Data))
		r.programs = append(r.programs, program{name, platform.Platform.String(), path, sum, info})
	}
	if name != hostImage {
		return nil
	}
	return r.addArchive(platform.Platform.String(), files)
}

// addArchive makes the archive of the host, its plugins, and the licenses of all of them, out of the files of its
// image. They are in a directory of the archive's name, with the host also as a plugin of kubectl.
func (r *release) addArchive(platform string, files fstest.MapFS) error {
	dir := "pergola-" + r.options.version + "-" + strings.ReplaceAll(platform, "/", "-")
	chosen := fstest.MapFS{}
	for name, file := range files {
		name = strings.TrimPrefix(name, "usr/local/bin/")
		if name == "pergola" || strings.HasPrefix(name, "plugins/") || strings.HasPrefix(name, "licenses/") {
			chosen[dir+"/"+name] = file
		}
	}
	chosen[dir+"/kubectl-pergola"] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte("pergola")}
	chosen[dir+"/kubectl_complete-pergola"] = &fstest.MapFile{Mode: 0o755, Data: []byte(completion)}
	r.platforms, r.archives = append(r.platforms, platform), append(r.archives, dir+".tar.gz")
	return pack(r.path(dir+".tar.gz"), r.options.date(), chosen)
}
