package pluginimage

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// host is the platform of this process.
var host = v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}

// Pull copies the program for this platform from the registry to a temporary file of the caller's, and returns its
// verified SHA-256. For the error see Take.
func (r Reference) Pull(ctx context.Context) (file, sum string, err error) {
	layers, err := r.layers(ctx)
	if err != nil {
		return "", "", fmt.Errorf("pull image %s: %w", r.Image, err)
	}
	out, err := os.CreateTemp("", "pergola-plugin-")
	if err != nil {
		return "", "", fmt.Errorf("create a temporary file: %w", err)
	}
	hash, found := sha256.New(), false
	for _, layer := range slices.Backward(layers) {
		if found, err = r.copyFrom(layer, io.MultiWriter(out, hash)); found || err != nil {
			break
		}
	}
	sum = fmt.Sprintf("%x", hash.Sum(nil))
	switch {
	case err != nil:
		err = fmt.Errorf("pull %s from image %s: %w", r.Path, r.Image, err)
	case !found:
		err = fmt.Errorf("%w: expected the file %s in %s, but found none, or a link; set path to the program",
			ErrUnfit, r.Path, r.Image)
	case r.SHA256 != "" && r.SHA256 != sum:
		err = fmt.Errorf("%w: expected the sha256 %s, but that of %s in %s is %s; fix image or sha256",
			ErrUnfit, r.SHA256, r.Path, r.Image, sum)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return "", "", errors.Join(err, os.Remove(out.Name()))
	}
	return out.Name(), sum, nil
}

// layers returns the layers of the image for this platform.
func (r Reference) layers(ctx context.Context) ([]v1.Layer, error) {
	ref, err := Parse(r.Image, r.SHA256)
	if err != nil {
		return nil, err
	}
	image, err := remote.Image(ref, remote.WithContext(ctx), remote.WithPlatform(host),
		remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	// A list is searched by platform; a single image may have none.
	if platform := config.Platform(); platform != nil && !platform.Satisfies(host) {
		return nil, fmt.Errorf("expected an image for %s, but it is for %s", host, platform)
	}
	return image.Layers()
}

// copyFrom copies the program from a layer, if it is there.
func (r Reference) copyFrom(layer v1.Layer, out io.Writer) (found bool, err error) {
	content, err := layer.Uncompressed()
	if err != nil {
		return false, err
	}
	defer func() { _ = content.Close() }() // it was only read
	archive := tar.NewReader(content)
	header, err := archive.Next()
	for ; err == nil; header, err = archive.Next() {
		if found = header.Typeflag == tar.TypeReg && path.Clean("/"+header.Name) == r.Path; found {
			_, err = io.CopyN(out, archive, header.Size)
			break
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		_, err = io.Copy(io.Discard, content) // because the digest of a layer is checked at its end
	}
	return found, err
}
