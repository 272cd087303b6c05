package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pergola-deploy/pergola/test/chartserver"
)

// image is what an archive has.
type image struct {
	repository, tag string
	config          []byte
	layers          [][]byte
}

// read reads a docker-archive with one image of one name, as test/cluster makes it.
func read(r io.Reader) (*image, error) {
	files := map[string][]byte{}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
	}
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		return nil, fmt.Errorf("read archive's manifest: %w", err)
	}
	if len(manifest) != 1 || len(manifest[0].RepoTags) != 1 {
		return nil, errors.New("read archive's manifest: it has not one image with one name")
	}
	repository, tag, tagged := strings.Cut(manifest[0].RepoTags[0], ":")
	if !tagged {
		return nil, fmt.Errorf("read archive's manifest: the name %q has no tag", repository)
	}
	i := &image{repository: repository, tag: tag, config: files[manifest[0].Config]}
	for _, layer := range manifest[0].Layers {
		i.layers = append(i.layers, files[layer])
	}
	return i, nil
}

// push puts the image into a registry.
func (i *image) push(registry *chartserver.Registry) error {
	config, err := i.pushBlob(registry, types.OCIConfigJSON, i.config)
	if err != nil {
		return err
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: config}
	for _, content := range i.layers {
		layer, err := i.pushBlob(registry, types.OCIUncompressedLayer, content)
		if err != nil {
			return err
		}
		manifest.Layers = append(manifest.Layers, layer)
	}
	content, err := json.Marshal(manifest)
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if _, err := registry.PushManifest(i.repository, i.tag, string(manifest.MediaType), content); err != nil {
		return fmt.Errorf("push image: %w", err)
	}
	return nil
}

func (i *image) pushBlob(registry *chartserver.Registry, mediaType types.MediaType, content []byte) (v1.Descriptor, error) {
	digest, err := registry.PushBlob(i.repository, content)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("push image: %w", err)
	}
	hash, err := v1.NewHash(digest)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("push image: %w", err)
	}
	return v1.Descriptor{MediaType: mediaType, Digest: hash, Size: int64(len(content))}, nil
}
