package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// file is a file of an image, or a directory. It belongs to root.
type file struct {
	path    string // from the root, with a slash before it; that of a directory has one behind it, too
	mode    int64  // as in an archive: permissions, with the sticky bit
	content []byte
}

func byPath(a, b file) int { return strings.Compare(a.path, b.path) }

// blob is content with what it is referred to by.
type blob struct {
	ocispec.Descriptor

	content []byte
}

func newBlob(mediaType string, content []byte) blob {
	return blob{
		Descriptor: ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))},
		content:    content,
	}
}

// epoch is the date of all files. That of the build would make layers differ that hold the same.
var epoch = time.Unix(0, 0)

// layer packs files in order of their paths. The second result is the digest of what is in it, which an image is configured with.
func layer(files []file) (packed blob, diffID digest.Digest, err error) {
	files = slices.SortedFunc(slices.Values(files), byPath)
	var plain bytes.Buffer
	archive := tar.NewWriter(&plain)
	for _, f := range files {
		if err := add(archive, f); err != nil {
			return blob{}, "", fmt.Errorf("pack %s: %w", f.path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return blob{}, "", fmt.Errorf("pack layer: %w", err)
	}
	var small bytes.Buffer
	compressed := gzip.NewWriter(&small)
	if _, err := compressed.Write(plain.Bytes()); err != nil {
		return blob{}, "", fmt.Errorf("compress layer: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return blob{}, "", fmt.Errorf("compress layer: %w", err)
	}
	return newBlob(ocispec.MediaTypeImageLayerGzip, small.Bytes()), digest.FromBytes(plain.Bytes()), nil
}

func add(archive *tar.Writer, f file) error {
	header := &tar.Header{
		Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.path, "/"), Mode: f.mode, Size: int64(len(f.content)), ModTime: epoch,
	}
	if strings.HasSuffix(f.path, "/") {
		header.Typeflag = tar.TypeDir
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(f.content)
	return err
}
