package render

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
)

// Helm bounds each archive by itself; contents bounds a chart with all of its sub-charts.
func init() { loader.MaxDecompressedChartSize = math.MaxInt64 }

// maxName is the bound of Linux for the length of a path.
const maxName = 4096

// contents counts the contents of a chart's archive, with those of its sub-charts.
type contents struct {
	limits helm.Limits
	bytes  int64
	files  int
}

// check refuses an archive where Helm's loader does not: for names outside of the chart, links and other entries (they
// would become empty files), and too much content. An unreadable archive is left to the loader.
func (c *contents) check(archive io.Reader, parent string) error {
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	for entries := tar.NewReader(unzipped); ; {
		entry, err := entries.Next()
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		name := strings.ReplaceAll(entry.Name, `\`, "/") // as the loader does
		if path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") {
			return refused(helm.ChartInvalid, parent+entry.Name, "leads out of its folder")
		}
		name = parent + path.Clean(name)
		if err := c.count(entry, name); err != nil {
			return err
		}
		if path.Base(path.Dir(name)) == "charts" && path.Ext(name) == ".tgz" {
			if err := c.check(entries, name+"/"); err != nil {
				return err
			}
		}
	}
}

func (c *contents) count(entry *tar.Header, name string) error {
	switch entry.Typeflag {
	case tar.TypeReg:
		c.bytes += entry.Size
	case tar.TypeDir, tar.TypeXGlobalHeader:
	case tar.TypeSymlink:
		return refused(helm.ChartInvalid, name, "is a symbolic link; a chart consists of regular files")
	default:
		return refused(helm.ChartInvalid, name, "is a link or a device; a chart consists of regular files")
	}
	c.files++
	depth := strings.Count(name, "/charts/")
	switch {
	case len(name) > maxName:
		return refused(helm.LimitExceeded, name, "has a name of %d bytes; %d are allowed", len(name), maxName)
	case entry.Size > loader.MaxDecompressedFileSize:
		return refused(helm.LimitExceeded, name, "has %d bytes; %d are allowed",
			entry.Size, loader.MaxDecompressedFileSize)
	case c.bytes > c.limits.UnpackedBytes:
		return refused(helm.LimitExceeded, name,
			"is too large: the chart unpacks to more than %d bytes", c.limits.UnpackedBytes)
	case c.files > c.limits.Files:
		return refused(helm.LimitExceeded, name, "is one too many: %d files and folders are allowed", c.limits.Files)
	case depth > c.limits.Depth:
		return refused(helm.LimitExceeded, name, "is in a sub-chart at depth %d; %d is allowed", depth, c.limits.Depth)
	}
	return nil
}

// refused is the error about a file. The end of a long name is worth more than its beginning.
func refused(kind helm.Kind, name, format string, args ...any) error {
	const enough = 200
	if len(name) > enough {
		name = "..." + name[len(name)-enough:]
	}
	return journal.Failure(kind, "the file %q of the chart %s", name, fmt.Sprintf(format, args...))
}

// load makes a chart of its files. Each call returns a new one: the library changes its arguments.
func load(files []*loader.BufferedFile) (*chart.Chart, error) {
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, journal.Failure(helm.ChartInvalid, "the chart cannot be loaded: %v", err)
	}
	return loaded, nil
}
