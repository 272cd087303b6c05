package components

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/ocm"
)

const (
	// maxPacked and maxUnpacked bound the bytes of a blueprint, and maxFiles its entries. All is in memory for a while.
	maxPacked   = 10 << 20
	maxUnpacked = 32 << 20
	maxFiles    = 5000
	// entryBytes bounds the bytes around each file in a tar.
	entryBytes = 4 << 10
	// blueprintFile is the required file of a blueprint.
	blueprintFile = "blueprint.yaml"
)

func invalidf(format string, args ...any) error { return fetch.Errorf(fetch.Invalid, format, args...) }
func tooMuchf(format string, args ...any) error { return fetch.Errorf(fetch.TooLarge, format, args...) }

func leftOutText(root *component.Version, n int) string {
	return fmt.Sprintf("component descriptor of %s %s in spec.config: the container does not get the descriptors of %d "+
		"referenced components, because nothing says where they are; set the repositoryContext of the Context",
		root.Name, root.Version, n)
}

// blueprint returns the files of a blueprint, a resource of a component version.
func (s *source) blueprint(ctx context.Context, v *component.Version, name string) (map[string][]byte, error) {
	what := fmt.Sprintf("blueprint %q of component %s %s", name, v.Name, v.Version)
	files, err := s.blueprintFiles(ctx, v, name)
	if err == nil && files[blueprintFile] == nil {
		err = invalidf("it has no file %s; correct the blueprint and push it again", blueprintFile)
	}
	if err != nil {
		known := fetch.Explain(err)
		return nil, &fetch.Error{Kind: known.Kind, Err: fmt.Errorf("read %s: %w", what, known.Err)}
	}
	return files, nil
}

func (s *source) blueprintFiles(ctx context.Context, v *component.Version, name string) (map[string][]byte, error) {
	resource, err := v.Blueprint(name)
	if err != nil {
		return nil, err
	}
	if s.inline != nil && v.Home.Registry == "" {
		return s.inline.blueprint(resource)
	}
	access, digest, err := v.Access(resource)
	if err != nil {
		return nil, err
	}
	file, err := s.finder.reader.Content(ctx, access, s.req.Credentials, ocm.Want{
		Layer: (*component.Manifest).BlueprintLayer, Limit: maxPacked, Digest: digest,
	})
	if err != nil {
		return nil, err
	}
	defer file.Release()
	content, err := os.Open(file.Path)
	if err != nil {
		return nil, fetch.Errorf(fetch.CacheFailed, "read the cache: %w", err)
	}
	defer content.Close() //nolint:errcheck // it is only read
	return unpack(content)
}

// unpack returns the regular files of a plain or gzipped tar by their paths. It skips links and devices.
func unpack(from io.Reader) (map[string][]byte, error) {
	plain := bufio.NewReader(from)
	var stream io.Reader = plain
	if magic, _ := plain.Peek(2); string(magic) == "\x1f\x8b" {
		zip, err := gzip.NewReader(plain)
		if err != nil {
			return nil, invalidf("it cannot be uncompressed: %w", err)
		}
		stream = zip
	}
	limited := &io.LimitedReader{R: stream, N: maxUnpacked + maxFiles*entryBytes}
	files := map[string][]byte{}
	left := int64(maxUnpacked)
	for entries, n := tar.NewReader(limited), 0; ; n++ {
		header, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF) && limited.N > 0:
			return files, nil
		case limited.N <= 0 || n == maxFiles:
			return nil, tooMuchf("it has more bytes than the limit of %d, or more files than the limit of %d",
				maxUnpacked, maxFiles)
		case err != nil:
			return nil, invalidf("it cannot be read as a tar: %w", err)
		case header.Typeflag != tar.TypeReg:
			continue
		}
		name := strings.TrimPrefix(path.Clean(header.Name), "/")
		if !fs.ValidPath(name) || name == "." {
			return nil, invalidf("it has a file %.200q, expected a path below the blueprint", header.Name)
		}
		if left -= header.Size; left < 0 {
			return nil, tooMuchf("it has more bytes than the limit of %d", maxUnpacked)
		}
		if files[name], err = io.ReadAll(entries); err != nil {
			return nil, invalidf("it cannot be read as a tar: %w", err)
		}
	}
}
