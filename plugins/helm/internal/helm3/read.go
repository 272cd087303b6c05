package helm3

import (
	"errors"
	"os"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// source is a chart that was read but not prepared: preparing changes it.
type source struct {
	files []archive.File
}

// readChart reads the archive of the request.
func (o *operation) readChart() (*source, error) {
	file, err := os.Open(o.req.Chart.Path)
	if err != nil {
		return nil, &helm.Error{Kind: helm.ClusterFailed, Message: "open the chart: " + reason(err)}
	}
	defer func() { _ = file.Close() }() // nothing was written
	files, err := archive.Read(file, archive.Limits{
		UnpackedBytes: o.req.Limits.UnpackedBytes, Files: o.req.Limits.Files, Depth: o.req.Limits.Depth,
	})
	if err != nil {
		return nil, unread(err)
	}
	return &source{files: files}, nil
}

// reason returns what an error of a file says without its path, which is of no use to anybody but this process.
func reason(err error) string {
	var of *os.PathError
	if errors.As(err, &of) {
		return of.Err.Error()
	}
	return err.Error()
}

// unread explains why there is no chart. What the archive is not to blame for, such as a disk that fails, may go better the next time.
func unread(err error) *helm.Error {
	var refused *archive.Error
	switch {
	case !errors.As(err, &refused):
		return &helm.Error{Kind: helm.ClusterFailed, Message: "read the chart: " + reason(err)}
	case refused.Kind == archive.LimitExceeded:
		return &helm.Error{Kind: helm.LimitExceeded, Message: err.Error()}
	default:
		return &helm.Error{Kind: helm.ChartInvalid, Message: err.Error()}
	}
}

// load has the library read the files.
func (s *source) load() (*chart.Chart, error) {
	files := make([]*loader.BufferedFile, 0, len(s.files))
	for _, f := range s.files {
		files = append(files, &loader.BufferedFile{Name: f.Name, Data: f.Data})
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, unreadable(loaded, err)
	}
	return loaded, nil
}
