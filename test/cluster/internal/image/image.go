// Package image writes container images of a single static binary, in the
// docker-archive format that container runtimes import without a registry.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"
)

// Image is what Write makes an archive of.
type Image struct {
	// Name is the image's full reference, such as localhost/pause:1.
	Name string
	// User is who the container runs as, UID or UID:GID. Empty means root.
	User string
	// Command is the binary's file name in the image's root directory, where
	// it is the entry point.
	Command string
	// Binary is a statically linked executable.
	Binary []byte
}

// Write writes the image as a docker-archive. Equal images give equal bytes.
func Write(w io.Writer, image Image) error {
	layer, err := layer(image)
	if err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	config, err := config(image, layer)
	if err != nil {
		return fmt.Errorf("write image config: %w", err)
	}
	configName, layerName := digest(config)+".json", digest(layer)+".tar"
	manifest, err := json.Marshal([]manifestEntry{{
		Config:   configName,
		RepoTags: []string{image.Name},
		Layers:   []string{layerName},
	}})
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	archive := tar.NewWriter(w)
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{configName, config},
		{layerName, layer},
		{"manifest.json", manifest},
	} {
		if err := addFile(archive, file.name, 0o644, file.content); err != nil {
			return fmt.Errorf("write %s: %w", file.name, err)
		}
	}
	return archive.Close()
}

type manifestEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// layer returns the image's file system: the binary, and a /tmp and an /etc
// for what programs and the kubelet put there.
func layer(image Image) ([]byte, error) {
	var buffer bytes.Buffer
	archive := tar.NewWriter(&buffer)
	for _, dir := range []tar.Header{{Name: "etc/", Mode: 0o755}, {Name: "tmp/", Mode: 0o1777}} {
		dir.Typeflag, dir.ModTime = tar.TypeDir, time.Unix(0, 0)
		if err := archive.WriteHeader(&dir); err != nil {
			return nil, err
		}
	}
	if err := addFile(archive, image.Command, 0o755, image.Binary); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func config(image Image, layer []byte) ([]byte, error) {
	type execution struct {
		User       string   `json:",omitempty"`
		Env        []string `json:",omitempty"`
		Entrypoint []string
		Labels     map[string]string
	}
	type rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	return json.Marshal(struct {
		Architecture string    `json:"architecture"`
		OS           string    `json:"os"`
		Config       execution `json:"config"`
		RootFS       rootFS    `json:"rootfs"`
	}{
		Architecture: runtime.GOARCH,
		OS:           "linux",
		Config: execution{
			User:       image.User,
			Env:        []string{"PATH=/"},
			Entrypoint: []string{"/" + image.Command},
			// To the kubelet, images with the same config are one image of
			// two names. If one was pulled with credentials, no pod gets the
			// other without them.
			Labels: map[string]string{"org.opencontainers.image.ref.name": image.Name},
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{"sha256:" + digest(layer)}},
	})
}

func addFile(archive *tar.Writer, name string, mode int64, content []byte) error {
	err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Mode:     mode,
		Size:     int64(len(content)),
		ModTime:  time.Unix(0, 0),
	})
	if err != nil {
		return err
	}
	_, err = archive.Write(content)
	return err
}

func digest(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }
