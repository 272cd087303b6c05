package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"text/template"
	"time"
)

//go:embed RELEASE.md.tmpl
var pageText string

// linkDefinition is the line with the address of a link.
var linkDefinition = regexp.MustCompile(`(?m)^\[[^]]+\]: .*$`)

var page = template.Must(template.New("RELEASE.md").Parse(pageText))

// addPage adds the page about changes, files and their checks. It names no registry: a release is the same in each.
func (r *release) addPage() error {
	changelog, err := os.ReadFile(r.options.changelog)
	if err != nil {
		return fmt.Errorf("read changelog: %w", err)
	}
	changes, err := changesOf(string(changelog), r.options.version)
	if err != nil {
		return fmt.Errorf("changelog %s: %w", r.options.changelog, err)
	}
	var text bytes.Buffer
	err = page.Execute(&text, map[string]any{
		"Changes": changes, "Version": r.options.version, "Revision": r.options.revision, "Go": runtime.Version(),
		"CycloneDX": bomVersion.String(),
		"Archives":  r.archives, "Images": r.images, "Platforms": strings.Join(r.platforms, ","),
		"Chart": r.chartFile(), "ChartVersion": strings.TrimSuffix(strings.TrimPrefix(r.chartFile(), "pergola-"), ".tgz"),
	})
	if err != nil {
		return fmt.Errorf("write RELEASE.md: %w", err)
	}
	return r.write("RELEASE.md", text.Bytes())
}

// changesOf returns the section of a version, without its heading. A version such as v1.2.3 must have one with a date;
// that of a commit has none.
func changesOf(changelog, version string) (string, error) {
	number, released := strings.CutPrefix(version, "v")
	if !released {
		return "", nil
	}
	_, rest, found := strings.Cut(changelog, "\n## ["+number+"] - ")
	if !found {
		return "", fmt.Errorf("expected a section ## [%s] - DATE", number)
	}
	date, rest, _ := strings.Cut(rest, "\n")
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return "", fmt.Errorf("expected the date of [%s], but found %q", number, date)
	}
	changes, _, _ := strings.Cut(rest, "\n## [")
	return strings.TrimSpace(linkDefinition.ReplaceAllString(changes, "")), nil
}
