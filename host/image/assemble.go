package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// release is what all images of one build have in common.
type release struct {
	version  string
	revision string // of the source
	created  time.Time
}

// The project, as annotations and documents name it.
const (
	source  = "https://github.com/pergola-deploy/pergola"
	vendor  = "Pergola"
	license = "Apache-2.0"
)

// annotations are those that https://specs.opencontainers.org/image-spec/annotations/ has for everybody.
func (r release) annotations(d definition) map[string]string {
	return map[string]string{
		ocispec.AnnotationTitle:       d.title,
		ocispec.AnnotationDescription: d.description,
		ocispec.AnnotationVendor:      vendor,
		ocispec.AnnotationLicenses:    license,
		ocispec.AnnotationSource:      source,
		ocispec.AnnotationVersion:     r.version,
		ocispec.AnnotationRevision:    r.revision,
		ocispec.AnnotationCreated:     r.date(),
	}
}

func (r release) date() string { return r.created.UTC().Format(time.RFC3339) }

// platform is an operating system with a kind of CPU, in the words of Go, which are those of OCI.
type platform struct{ os, architecture string }

// parsePlatforms reads a list such as "linux/amd64,linux/arm64".
func parsePlatforms(list string) ([]platform, error) {
	var platforms []platform
	for _, text := range strings.Split(list, ",") {
		system, architecture, whole := strings.Cut(text, "/")
		p := platform{os: system, architecture: architecture}
		switch {
		case !whole || system != "linux" || architecture == "" || strings.Contains(architecture, "/"):
			return nil, fmt.Errorf("expected platforms such as linux/amd64,linux/arm64, but found %q", text)
		case slices.Contains(platforms, p):
			return nil, fmt.Errorf("expected each platform once, but found %s twice", p)
		}
		platforms = append(platforms, p)
	}
	return platforms, nil
}

func (p platform) String() string { return p.os + "/" + p.architecture }

// image is an image in all its parts.
type image struct {
	// index is what its name refers to: the list of its platforms.
	index blob
	// sbom is what its programs are made of, and referrer the manifest that says of it whose it is.
	sbom, referrer blob
	// rest is everything that these refer to.
	rest []blob
}

// blobs are all parts, each once, in order of their digests.
func (i *image) blobs() []blob {
	parts := map[digest.Digest]blob{}
	for _, b := range slices.Concat(i.rest, []blob{i.index, i.sbom, i.referrer}) {
		parts[b.Digest] = b
	}
	return slices.SortedFunc(maps.Values(parts), func(a, b blob) int { return strings.Compare(a.Digest.String(), b.Digest.String()) })
}

// variant is what differs between the platforms of an image.
type variant struct {
	platform platform
	programs []program // as the definition places them
	licenses []file    // of the modules that these and the definition's data are of
}

// layers are those that lie upon the base. The licenses come last: they change with any of the programs, and it costs little to unpack them again.
func (v variant) layers() (all [][]file) {
	for _, p := range v.programs {
		all = append(all, []file{{path: p.path, mode: programMode, content: p.content}})
	}
	return append(all, v.licenses)
}

// assemble makes an image.
func assemble(d definition, r release, variants []variant) (*image, error) {
	base, baseID, err := layer(d.base)
	if err != nil {
		return nil, err
	}
	out := &image{}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Annotations: r.annotations(d)}
	for _, v := range variants {
		manifest := ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
			Layers: []ocispec.Descriptor{base.Descriptor}, Annotations: r.annotations(d),
		}
		config := d.config(r, v.platform)
		config.RootFS.DiffIDs = []digest.Digest{baseID}
		out.rest = append(out.rest, base)
		for _, files := range v.layers() {
			packed, diffID, err := layer(files)
			if err != nil {
				return nil, err
			}
			manifest.Layers = append(manifest.Layers, packed.Descriptor)
			config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, diffID)
			out.rest = append(out.rest, packed)
		}
		configBlob, err := document(ocispec.MediaTypeImageConfig, config)
		if err != nil {
			return nil, err
		}
		manifest.Config = configBlob.Descriptor
		manifestBlob, err := document(manifest.MediaType, manifest)
		if err != nil {
			return nil, err
		}
		out.rest = append(out.rest, configBlob, manifestBlob)
		listed := manifestBlob.Descriptor
		listed.Platform = &ocispec.Platform{OS: v.platform.os, Architecture: v.platform.architecture}
		index.Manifests = append(index.Manifests, listed)
	}
	if out.index, err = document(index.MediaType, index); err != nil {
		return nil, err
	}
	return out, out.attach(d, r, variants)
}

func (d definition) config(r release, p platform) ocispec.Image {
	created := r.created.UTC()
	return ocispec.Image{
		Created:  &created,
		Author:   vendor,
		Platform: ocispec.Platform{OS: p.os, Architecture: p.architecture},
		Config:   ocispec.ImageConfig{User: user, Env: d.env, Entrypoint: d.entrypoint, Cmd: d.command, WorkingDir: "/"},
		RootFS:   ocispec.RootFS{Type: "layers"},
	}
}

// attach adds the SBOM, as https://specs.opencontainers.org/image-spec/manifest/#guidelines-for-artifact-usage has it: by a manifest that
// refers to the image. Registries find it by that, and copy it along.
func (i *image) attach(d definition, r release, variants []variant) error {
	text, err := describe(d, r, i.index.Digest, variants)
	if err != nil {
		return err
	}
	i.sbom = newBlob(sbomType, text)
	empty := newBlob(ocispec.DescriptorEmptyJSON.MediaType, ocispec.DescriptorEmptyJSON.Data)
	subject := i.index.Descriptor
	i.referrer, err = document(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: sbomType,
		Config: empty.Descriptor, Layers: []ocispec.Descriptor{i.sbom.Descriptor}, Subject: &subject,
		Annotations: map[string]string{ocispec.AnnotationCreated: r.date()},
	})
	i.rest = append(i.rest, empty)
	return err
}

func document(mediaType string, v any) (blob, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return blob{}, fmt.Errorf("write %s: %w", mediaType, err)
	}
	return newBlob(mediaType, text), nil
}
