package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// containerdName is the annotation by which containerd, and Docker with it, find out how to call an image of an archive.
const containerdName = "io.containerd.image.name"

// write writes an image as an OCI layout in an archive. The tag is its name there; containerd calls it localhost/NAME:TAG.
func (i *image) write(w io.Writer, name, tag string) error {
	named := i.index.Descriptor
	named.Annotations = map[string]string{ocispec.AnnotationRefName: tag, containerdName: "localhost/" + name + ":" + tag}
	attached := i.referrer.Descriptor
	attached.ArtifactType = sbomType
	index, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{named, attached},
	})
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	layout, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	const blobs = "/" + ocispec.ImageBlobsDir + "/sha256/"
	files := []file{
		{path: "/" + ocispec.ImageLayoutFile, mode: fileMode, content: layout},
		{path: "/" + ocispec.ImageIndexFile, mode: fileMode, content: index},
		{path: "/" + ocispec.ImageBlobsDir + "/", mode: dirMode},
		{path: blobs, mode: dirMode},
	}
	for _, b := range i.blobs() {
		files = append(files, file{path: blobs + b.Digest.Encoded(), mode: fileMode, content: b.content})
	}
	archive := tar.NewWriter(w)
	for _, f := range files {
		if err := add(archive, f); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}
