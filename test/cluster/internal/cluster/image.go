package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Image returns a container image of a static binary, as a docker-archive, which container runtimes import without a
// registry. Its name is a full reference, such as localhost/pause:1, and its user a UID or UID:GID, or empty for root.
// The binary is in the root directory under the name of the command, as the entry point. Equal images are equal bytes.
func Image(name, user, command string, binary []byte) ([]byte, error) {
	type object = map[string]any
	layer, layerErr := archive([]file{
		// Programs and the kubelet put something there.
		{name: "etc/", kind: tar.TypeDir, mode: 0o755},
		{name: "tmp/", kind: tar.TypeDir, mode: 0o1777},
		{name: command, kind: tar.TypeReg, mode: 0o755, content: binary},
	})
	config, configErr := json.Marshal(object{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"rootfs":       object{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
		"config": object{
			"User":       user,
			"Env":        []string{"PATH=/"},
			"Entrypoint": []string{"/" + command},
			// To the kubelet, images with the same config are one image of two names. If one was pulled with
			// credentials, no pod gets the other without them.
			"Labels": object{"org.opencontainers.image.ref.name": name},
		},
	})
	configName, layerName := digest(config)+".json", digest(layer)+".tar"
	manifest, manifestErr := json.Marshal([]object{
		{"Config": configName, "RepoTags": []string{name}, "Layers": []string{layerName}},
	})
	image, imageErr := archive([]file{
		{name: configName, kind: tar.TypeReg, mode: 0o644, content: config},
		{name: layerName, kind: tar.TypeReg, mode: 0o644, content: layer},
		{name: "manifest.json", kind: tar.TypeReg, mode: 0o644, content: manifest},
	})
	if err := errors.Join(layerErr, configErr, manifestErr, imageErr); err != nil {
		return nil, fmt.Errorf("make image %s: %w", name, err)
	}
	return image, nil
}

type file struct {
	name    string
	kind    byte
	mode    int64
	content []byte
}

func archive(files []file) ([]byte, error) {
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: f.kind, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: time.Unix(0, 0),
		}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := writer.Close() // which writes the end
	return buffer.Bytes(), err
}

func digest(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }
