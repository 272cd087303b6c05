// Package index finds a chart in the index.yaml of a chart repository.
//
// An index can have tens of megabytes, of which one chart is a small part, and comes from a server that nobody vouches for. So it is read
// from a file line by line, as repositories lay it out, and only the versions of the wanted chart are parsed, one after the other: what is
// in memory is never more than one version with its fields, and those of all that matter. An index in JSON is read the same way. One that is
// laid out otherwise is parsed as a whole, if it is small.
package index

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
)

const (
	// mostWhole is how large an index may be that is laid out in an unusual way.
	mostWhole = 2 << 20
	// mostOfVersion bounds the text of one version.
	mostOfVersion = 1 << 20
	// mostVersions bounds the versions of one chart.
	mostVersions = 5_000
	// mostAddresses bounds the addresses of one version.
	mostAddresses = 20
)

var (
	// ErrNoIndex says that the file is something else.
	ErrNoIndex = errors.New("expected the index of a chart repository, YAML with a field entries, but found something else")
	// ErrLayout says that the index is laid out in a way that is not read if it is large.
	ErrLayout = fmt.Errorf("the index is not laid out as \"helm repo index\" does it, and with more than %d bytes too large for that", mostWhole)
	// ErrTooMuch says that the chart has too many versions, or one that is too large.
	ErrTooMuch = fmt.Errorf("expected not more than %d versions of a chart, of not more than %d bytes each, but found more", mostVersions, mostOfVersion)
	// ErrNoChart says that the index does not have the chart.
	ErrNoChart = errors.New("the repository has no chart of this name")
)

// Version is a version of a chart.
type Version struct {
	Version string
	// URLs are where its archive is, absolute or relative to the repository. Any of them will do.
	URLs []string
	// Digest of the archive as the index has it; empty if it has none.
	Digest string

	parsed *semver.Version
}

// Versions of a chart, the newest first. Those that are no semantic versions are left out, as Helm does.
type Versions []*Version

// Find returns the versions of a chart in an index. The error is one of this package, or that of the reader.
func Find(r io.ReadSeeker, chart string) (Versions, error) {
	found, err := find(r, chart)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, ErrNoChart
	}
	slices.SortStableFunc(found, func(a, b *Version) int { return b.parsed.Compare(a.parsed) })
	return found, nil
}

func find(r io.ReadSeeker, chart string) (Versions, error) {
	c := &collector{}
	err := readLines(r, chart, c)
	if !errors.Is(err, errUnusual) {
		return c.versions, err
	}
	c = &collector{}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if err := readJSON(r, chart, c); !errors.Is(err, errUnusual) {
		return c.versions, err
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return readWhole(r, chart)
}

// readWhole parses an index at once.
func readWhole(r io.Reader, chart string) (Versions, error) {
	document, err := io.ReadAll(io.LimitReader(r, mostWhole+1))
	switch {
	case err != nil:
		return nil, err
	case len(document) > mostWhole:
		return nil, ErrLayout
	}
	var whole struct {
		Entries map[string][]yaml.Node `yaml:"entries"`
	}
	if err := yaml.Unmarshal(document, &whole); err != nil || whole.Entries == nil {
		return nil, ErrNoIndex // the error of the parser would quote the file
	}
	c := &collector{}
	for _, node := range whole.Entries[chart] {
		if err := c.add(node.Decode); err != nil {
			return nil, err
		}
	}
	return c.versions, nil
}

// collector gathers versions.
type collector struct {
	seen     int
	versions Versions
}

// add decodes a version. What is none is left out.
func (c *collector) add(decode func(into any) error) error {
	if c.seen++; c.seen > mostVersions {
		return ErrTooMuch
	}
	var v struct {
		Version string   `json:"version" yaml:"version"`
		URLs    []string `json:"urls" yaml:"urls"`
		Digest  string   `json:"digest" yaml:"digest"`
	}
	if err := decode(&v); err != nil {
		return nil //nolint:nilerr // Helm passes over what is no version, too
	}
	parsed, err := semver.NewVersion(v.Version)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	c.versions = append(c.versions, &Version{
		Version: v.Version, URLs: slices.Clone(v.URLs[:min(len(v.URLs), mostAddresses)]), Digest: v.Digest, parsed: parsed,
	})
	return nil
}

// Wanted is which version is wanted.
type Wanted struct {
	text       string
	constraint *semver.Constraints
}

// mostOfWanted bounds the text of a range of versions.
const mostOfWanted = 256

// ParseWanted reads a version or a range of versions, such as "1.2.3", "^1.2" or ">=1.2.0 <2.0.0"; empty for the newest that is no
// prerelease.
func ParseWanted(text string) (*Wanted, error) {
	if len(text) > mostOfWanted {
		return nil, fmt.Errorf("expected not more than %d characters, but found %d", mostOfWanted, len(text))
	}
	constraint, err := semver.NewConstraint(cmp.Or(text, "*"))
	if err != nil {
		return nil, fmt.Errorf("expected a version such as 1.2.3 or a range of versions such as ^1.2: %w", err)
	}
	return &Wanted{text: text, constraint: constraint}, nil
}

// Pick returns the version that is wanted, as Helm does it: the one that is called exactly so, or the newest of the range; nil if there is
// none. A prerelease is in a range only if that names one.
func (vs Versions) Pick(wanted *Wanted) *Version {
	if wanted.text != "" {
		for _, v := range vs {
			if v.Version == wanted.text {
				return v
			}
		}
	}
	for _, v := range vs {
		if wanted.constraint.Check(v.parsed) {
			return v
		}
	}
	return nil
}
