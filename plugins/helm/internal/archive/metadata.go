package archive

import (
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxWordBytes bounds a name and a version. A name becomes part of names in the cluster, a version that of a label.
const maxWordBytes = 250

var (
	// chartName is what "helm create" allows, and no name that means a folder.
	chartName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)
	// chartVersion is a superset of semantic versions. Helm looks closer.
	chartVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+-]*$`)
)

// metadata is what matters here of what a chart says about itself.
type metadata struct {
	Name         string        `json:"name"`
	Version      string        `json:"version"`
	Dependencies []*dependency `json:"dependencies"`
}

type dependency struct {
	Name string `json:"name"`
}

// readMetadata reads Chart.yaml and, over it, requirements.yaml: Helm lets the older file change everything.
func readMetadata(files map[string][]byte) (*metadata, error) {
	about := &metadata{}
	for _, file := range []string{metadataFile, requirementsFile} {
		if err := yaml.Unmarshal(files[file], about); err != nil {
			return nil, at(file, unreadable(err))
		}
	}
	if len(about.Name) > maxWordBytes || !chartName.MatchString(about.Name) {
		return nil, at(metadataFile, invalid("has the name %q; a chart's name has letters, digits, and the characters ._-, and no dot in front", shorten(about.Name)))
	}
	if len(about.Version) > maxWordBytes || !chartVersion.MatchString(about.Version) {
		return nil, at(metadataFile, invalid("has the version %q, which is no semantic version such as 1.2.3", shorten(about.Version)))
	}
	return about, nil
}

// checkDependencies refuses a chart that is not complete. Helm's library would install it without what is missing; only its command asks.
func (m *metadata) checkDependencies(vendored []string) error {
	var missing []string
	for _, dependency := range m.Dependencies {
		if dependency != nil && !slices.Contains(vendored, dependency.Name) {
			missing = append(missing, shorten(dependency.Name))
		}
	}
	if len(missing) > 0 {
		return at(metadataFile, invalid("lists dependencies that are not in charts/: %q; they are never downloaded, run \"helm dependency update\" and pack the chart again",
			strings.Join(missing, ", ")))
	}
	return nil
}
