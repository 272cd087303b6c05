package chartserver

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"path"

	"sigs.k8s.io/yaml"
)

// aboutBytes is how far into an archive is looked for what the chart says of itself. Archives may be bombs.
const aboutBytes = 1 << 20

// about is what a chart says of itself.
type about map[string]any

// aboutChart reads what a chart says of itself, which is at the beginning of its archive. If that cannot be read, it is given a name and a
// version, so that hostile charts are served as well.
func aboutChart(archive []byte, repository, tag string) about {
	a := readAbout(archive)
	if a == nil {
		a = about{"apiVersion": "v2"}
	}
	if a.text("name") == "" {
		a["name"] = path.Base(repository)
	}
	if a.text("version") == "" {
		a["version"] = tag
	}
	return a
}

// readAbout returns nil if an archive does not say what is in it.
func readAbout(archive []byte) about {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil
	}
	t := tar.NewReader(io.LimitReader(unzipped, aboutBytes))
	for {
		header, err := t.Next()
		if err != nil {
			return nil
		}
		if path.Base(header.Name) != "Chart.yaml" || path.Dir(path.Dir(header.Name)) != "." {
			continue
		}
		content, err := io.ReadAll(t)
		if err != nil {
			return nil
		}
		var a about
		if err := yaml.Unmarshal(content, &a); err != nil {
			return nil
		}
		if _, err := json.Marshal(a); err != nil {
			return nil
		}
		return a
	}
}

func (a about) text(field string) string {
	text, _ := a[field].(string)
	return text
}
