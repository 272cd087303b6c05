package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"runtime"
	"strings"
	"text/template"
)

//go:embed RELEASE.md.tmpl
var pageText string

var page = template.Must(template.New("RELEASE.md").Parse(pageText))

// addPage adds the page about the files and their checks. It names no registry: a release is the same in each.
func (r *release) addPage() error {
	var text bytes.Buffer
	err := page.Execute(&text, map[string]any{
		"Version": r.options.version, "Revision": r.options.revision, "Go": runtime.Version(),
		"CycloneDX": bomVersion.String(),
		"Archives":  r.archives, "Images": r.images, "Platforms": strings.Join(r.platforms, ","),
		"Chart": r.chartFile(), "ChartVersion": strings.TrimSuffix(strings.TrimPrefix(r.chartFile(), "pergola-"), ".tgz"),
	})
	if err != nil {
		return fmt.Errorf("write RELEASE.md: %w", err)
	}
	return r.write("RELEASE.md", text.Bytes())
}
