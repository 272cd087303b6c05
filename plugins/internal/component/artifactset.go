package component

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
)

// Unpacked is the artifact of an artifact set.
type Unpacked struct {
	// Manifest is the document of the main manifest, such as for Verify.
	Manifest []byte
	// Layer is the chosen layer, and Content its bytes, with a verified digest.
	Layer   ocispec.Descriptor
	Content []byte
}

const (
	// maxEntries bounds the entries of an artifact set, and entryBytes the overhead of each.
	maxEntries = 1000
	entryBytes = 4 << 10
	// maxIndex bounds the index of an artifact set.
	maxIndex = 1 << 20
)

// Names of the index, in order of precedence, and the annotations of the index with the digest of the main manifest.
var (
	indexNames      = []string{"index.json", "artifact-descriptor.json"}
	annotationsMain = []string{"software.ocm/main", "cloud.gardener.ocm/main"}
)

// ReadArtifactSet reads an artifact set, a tar with or without compression, and returns one layer of its main
// manifest, chosen by choose, such as (*Manifest).ChartLayer. The blobs of the set may have limit bytes together, in
// memory until it returns. It may leave a rest of set unread.
//
// An error of set, or of choose, is returned as it is.
func ReadArtifactSet(
	set fetch.Body, limit int64, choose func(*Manifest) (ocispec.Descriptor, error),
) (*Unpacked, error) {
	found := &artifactSet{left: limit, index: map[string][]byte{}, blobs: map[digest.Digest][]byte{}}
	if err := found.read(set, limit); err != nil {
		return nil, err
	}
	main, err := found.main()
	if err != nil {
		return nil, err
	}
	artifact := &Unpacked{}
	if artifact.Manifest, err = found.blob("the main manifest", main); err != nil {
		return nil, err
	}
	manifest, err := ParseManifest(artifact.Manifest)
	if err == nil && manifest.IsIndex() {
		err = invalidf("the main manifest of the artifact set is an index, but expected the manifest of one artifact")
	}
	if err != nil {
		return nil, err
	}
	if artifact.Layer, err = choose(manifest); err != nil {
		return nil, err
	}
	artifact.Content, err = found.blob("the layer", artifact.Layer.Digest)
	return artifact, err
}

// artifactSet has the index and the blobs of an artifact set.
type artifactSet struct {
	// left is the rest of the limit for blobs.
	left  int64
	index map[string][]byte
	blobs map[digest.Digest][]byte
}

// read reads an artifact set to the end of its tar.
func (s *artifactSet) read(from io.Reader, limit int64) error {
	plain := bufio.NewReader(from)
	var content io.Reader = plain
	if magic, _ := plain.Peek(2); string(magic) == "\x1f\x8b" {
		zip, err := gzip.NewReader(plain)
		switch {
		case errors.As(err, new(*fetch.Error)):
			return err
		case err != nil:
			return invalidf("the artifact set cannot be uncompressed: %w", err)
		}
		content = zip
	}
	stream := &io.LimitedReader{R: content, N: limit + maxIndex + maxEntries*entryBytes}
	entries := tar.NewReader(stream)
	for range maxEntries {
		entry, err := entries.Next()
		switch {
		case err == nil:
			err = s.add(entry, entries)
		case errors.Is(err, io.EOF) && stream.N > 0:
			return nil
		}
		switch {
		case err == nil:
		case stream.N <= 0:
			return invalidf("the artifact set is larger than the %d bytes that are allowed", limit)
		case errors.As(err, new(*fetch.Error)):
			return err
		default:
			return invalidf("the artifact set cannot be read as a tar: %w", err)
		}
	}
	return invalidf("the artifact set has more than the %d entries that are allowed", maxEntries)
}

// add keeps an entry with an index or a blob. Of entries with the same name the first one counts.
func (s *artifactSet) add(entry *tar.Header, content io.Reader) (err error) {
	if entry.Typeflag != tar.TypeReg {
		return nil
	}
	name := cleanName(entry.Name)
	for _, known := range indexNames {
		if _, twice := s.index[name]; name == known && !twice {
			if entry.Size > maxIndex {
				return invalidf("the file %s of the artifact set is larger than the %d bytes that are allowed", name, maxIndex)
			}
			s.index[name], err = io.ReadAll(content)
			return err
		}
	}
	blob, ok := digestOf(name)
	if _, twice := s.blobs[blob]; !ok || twice {
		return nil
	}
	if s.left -= entry.Size; s.left < 0 {
		return invalidf("the artifact set is larger than the bytes that are allowed: its blobs have more than them")
	}
	s.blobs[blob], err = io.ReadAll(content)
	return err
}

// digestOf returns the digest in the name of a blob, of either layout: blobs/sha256.<hex> or blobs/sha256/<hex>.
func digestOf(name string) (digest.Digest, bool) {
	name, ok := strings.CutPrefix(name, "blobs/")
	at := strings.IndexAny(name, "./")
	if !ok || at < 0 {
		return "", false
	}
	d := digest.Digest(name[:at] + ":" + name[at+1:])
	return d, d.Validate() == nil
}

// main returns the digest of the main manifest.
func (s *artifactSet) main() (digest.Digest, error) {
	document := s.index[indexNames[0]]
	if document == nil {
		document = s.index[indexNames[1]]
	}
	var index Manifest
	if json.Unmarshal(document, &index) != nil {
		return "", invalidf("the artifact set has no %s that can be read", indexNames[0])
	}
	for _, annotation := range annotationsMain {
		if main := digest.Digest(index.Annotations[annotation]); main.Validate() == nil {
			return main, nil
		}
	}
	if len(index.Manifests) != 1 || index.Manifests[0].Digest.Validate() != nil {
		return "", invalidf("the artifact set has %d manifests, but expected one, or the annotation %s that says which",
			len(index.Manifests), annotationsMain[0])
	}
	return index.Manifests[0].Digest, nil
}

// blob returns the blob of the set with a digest.
func (s *artifactSet) blob(what string, want digest.Digest) ([]byte, error) {
	content, ok := s.blobs[want]
	if !ok {
		return nil, invalidf("%s of the artifact set, %s, is not in it", what, want)
	}
	return content, Verify(what+" of the artifact set", want, content)
}
