package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest" // which has a file system of a map
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// definition describes an image for all platforms.
type definition struct {
	name, title, description string
	// programs are the packages of its programs, by their paths in the image.
	programs map[string]string
	// authorities reports whether it has the certificates of the authorities of browsers.
	authorities bool
	config      v1.Config
}

// user is the user of all images, by numbers because Kubernetes must see that it is not root. The names are for
// /etc/passwd.
const (
	user   = "65532:65532"
	users  = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
	groups = "root:x:0:\nnonroot:x:65532:\n"
)

var definitions = []definition{
	{
		name:        "pergola",
		title:       "Pergola",
		description: "Host controller that runs deployers as plugins, with the deployers mock, container, manifest and helm",
		programs: map[string]string{
			"usr/local/bin/pergola": "./host/cmd/pergola",
			"plugins/container":     "./plugins/container",
			"plugins/helm":          "./plugins/helm",
			"plugins/manifest":      "./plugins/manifest",
			"plugins/mock":          "./plugins/mock",
		},
		authorities: true,
		config: v1.Config{
			User: user, WorkingDir: "/", Env: []string{"PATH=/usr/local/bin"},
			Entrypoint: []string{"pergola"}, Cmd: []string{"host"},
		},
	},
	{
		name:  "container-helper",
		title: "Pergola container helper",
		description: "What runs beside the image of a container deploy item: " +
			"it prepares its directories and takes its exports and its state",
		programs: map[string]string{"helper": "./plugins/container/helper"},
		config:   v1.Config{User: user, WorkingDir: "/", Env: []string{"PATH=/"}, Entrypoint: []string{"/helper"}},
	},
}

// annotations are common ones of https://specs.opencontainers.org/image-spec/annotations/.
func (d definition) annotations(o options) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       d.title,
		prefix + "description": d.description,
		prefix + "vendor":      "Pergola",
		prefix + "licenses":    "Apache-2.0",
		prefix + "source":      "https://github.com/pergola-deploy/pergola",
		prefix + "version":     o.version,
		prefix + "revision":    o.revision,
		prefix + "created":     o.date().Format(time.RFC3339),
	}
}

// assemble makes an image: the list of its platforms.
func assemble(ctx context.Context, d definition, o options) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for text := range strings.SplitSeq(o.platforms, ",") {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return nil, fmt.Errorf("platform %s: %w", text, err)
		}
		files, err := contents(ctx, d, o, platform)
		if err != nil {
			return nil, err
		}
		image, err := layered(files, &v1.ConfigFile{
			OS: platform.OS, Architecture: platform.Architecture, Author: "Pergola", Created: v1.Time{Time: o.date()},
			Config: d.config, RootFS: v1.RootFS{Type: "layers"},
		})
		if err != nil {
			return nil, err
		}
		image = mutate.Annotations(image, d.annotations(o)).(v1.Image) //nolint:forcetypeassert // it gives what it gets
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	//nolint:forcetypeassert // it returns the type of its argument
	return mutate.Annotations(index, d.annotations(o)).(v1.ImageIndex), nil
}

// layered returns an image of one layer for a platform. Its files belong to root and have no date: the same files give
// the same image.
func layered(files fs.FS, config *v1.ConfigFile) (v1.Image, error) {
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

// contents are the files of an image on a platform.
func contents(ctx context.Context, d definition, o options, platform *v1.Platform) (fstest.MapFS, error) {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, fmt.Errorf("read license: %w", err)
	}
	files := fstest.MapFS{
		"etc/group":          {Mode: 0o444, Data: []byte(groups)},
		"etc/passwd":         {Mode: 0o444, Data: []byte(users)},
		licenses + "LICENSE": {Mode: 0o444, Data: license},
		licenses + "README":  {Mode: 0o444, Data: []byte(licenseGuide)},
		"tmp":                {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	}
	var packages []string
	for to, from := range d.programs {
		built := filepath.Join(o.programs, platform.OS, platform.Architecture, strings.TrimPrefix(to, "usr/local/bin/"))
		program, err := os.ReadFile(built)
		if err != nil {
			return nil, fmt.Errorf("read program: %w", err)
		}
		files[to] = &fstest.MapFile{Mode: 0o555, Data: program}
		packages = append(packages, from)
	}
	if d.authorities {
		files["etc/ssl/certs/ca-certificates.crt"] = &fstest.MapFile{Mode: 0o444, Data: certificates()}
		packages = append(packages, "golang.org/x/crypto/x509roots/fallback/bundle")
	}
	return files, addLicenses(ctx, files, platform, packages)
}

// certificates returns the certificates of the authorities of browsers. A file has no room for conditions of trust, so
// authorities with conditions are left out.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}
