// Package pluginimage takes the programs of plugins out of container images, keeps them in a cache, and makes such
// images. As with other tools, registry credentials are those of docker login, and proxies and certificates those of
// the environment.
package pluginimage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// ErrUnfit marks errors which another try would only repeat: the image has another content than configured.
var ErrUnfit = errors.New("the image is not the configured one")

// Reference is the place of a plugin's program.
type Reference struct {
	// Image contains the program, for each of its platforms; see Parse.
	Image string
	// Path of the program in the image, absolute and clean.
	Path string
	// SHA256 is the required hash of the program, in lower-case hexadecimal digits. Empty for any.
	SHA256 string
}

// Parse reads the reference of an image. It needs a digest, or sum, the SHA-256 of the program.
func Parse(image, sum string) (name.Reference, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, fmt.Errorf("expected an image such as registry.example.org/team/thing@sha256:…, but found %q", image)
	}
	if _, fixed := ref.(name.Digest); !fixed && sum == "" {
		return nil, fmt.Errorf("expected a digest, or a sha256 beside it, because what a tag names may change, but found "+
			"%q; append @sha256:…", image)
	}
	return ref, nil
}

// Take returns the program for this platform as a file of this name, in a directory of its own below the cache, and its
// SHA-256 at the time of the pull. A program in the cache needs no registry. The error may be ErrUnfit.
func (r Reference) Take(ctx context.Context, cache, file string) (path, sum string, err error) {
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", "", fmt.Errorf("make the cache of plugins: %w; set pluginCache to a directory of the host's own", err)
	}
	entries, _ := os.ReadDir(cache) // an unreadable one is pulled again
	key := fmt.Sprintf("%.8x-", sha256.Sum256([]byte(r.Image+"\n"+r.Path+"\n"+host.String())))
	for _, entry := range entries {
		sum, found := strings.CutPrefix(entry.Name(), key)
		path := filepath.Join(cache, entry.Name(), file)
		if _, err := os.Lstat(path); found && err == nil && (r.SHA256 == "" || r.SHA256 == sum) {
			return path, sum, nil
		}
	}
	pulled, sum, err := r.Pull(ctx)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = os.Remove(pulled) }() // it is a temporary file
	dir := filepath.Join(cache, key+sum)
	if err = os.MkdirAll(dir, 0o700); err == nil {
		path, err = plugindir.Install(pulled, dir, file)
	}
	return path, sum, err
}
