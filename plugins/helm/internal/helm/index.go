package helm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
)

// Wanted is a chart to look up in the index of a chart repository.
type Wanted struct {
	// Name of the chart, and its Version or a range of versions, see ParseConstraint.
	Name, Version string
}

// Listed is a chart in the index of a chart repository. It is small, whatever the index holds.
type Listed struct {
	// Versions is the number of its versions. Newest is the newest one.
	Versions int
	Newest   string
	// Found is the wanted one; nil for none.
	Found *ChartVersion
}

// ChartVersion is a version of a chart in an index.
type ChartVersion struct {
	Version string `json:"version" yaml:"version"`
	// URLs of its archive, absolute or relative to the repository. Any one is enough.
	URLs []string `json:"urls" yaml:"urls"`
	// Digest of the archive in the index; empty for none.
	Digest string `json:"digest" yaml:"digest"`

	parsed *semver.Version
}

const (
	// maxAddresses bounds the addresses of one version, and maxText each text of it.
	maxAddresses = 20
	maxText      = 2048
	// maxConstraint bounds the text of a range of versions.
	maxConstraint = 256
)

// ParseConstraint reads a version or a range of versions, such as "1.2.3", "^1.2" or ">=1.2.0 <2.0.0"; empty for the
// newest other than a prerelease.
func ParseConstraint(text string) (*semver.Constraints, error) {
	if len(text) > maxConstraint {
		return nil, fmt.Errorf("expected not more than %d characters, but found %d", maxConstraint, len(text))
	}
	constraint, err := semver.NewConstraint(cmp.Or(text, "*"))
	if err != nil {
		return nil, fmt.Errorf("expected a version such as 1.2.3 or a range of versions such as ^1.2: %w", err)
	}
	return constraint, nil
}

// errNoIndex quotes nothing of the index.
var errNoIndex = &Error{Kind: ChartInvalid, Message: "expected the index of a chart repository, YAML with a field " +
	"entries, but found something else"}

// ReadIndex looks a chart up in the file of an index. It reads all of the index, from an untrusted server, so it is for
// a worker: a megabyte may ask for any amount of memory. Versions other than semantic ones are left out, as Helm does.
func ReadIndex(path string, want Wanted) (*Listed, error) {
	document, err := os.ReadFile(path) // #nosec G304 -- a file of the deployer's cache
	if err != nil {
		failed := &fs.PathError{}
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, &Error{Kind: ClusterFailed, Message: "read the cached index: " + err.Error()}
	}
	return lookUp(document, want)
}

func lookUp(document []byte, want Wanted) (*Listed, error) {
	constraint, err := ParseConstraint(want.Version)
	if err != nil {
		return nil, &Error{Kind: ChartInvalid, Message: err.Error()}
	}
	items, err := itemsOf(document, want.Name)
	if err != nil {
		return nil, err
	}
	all := decoded(items)
	if len(all) == 0 {
		return &Listed{}, nil
	}
	return &Listed{Versions: len(all), Newest: all[0].Version, Found: pick(all, want.Version, constraint).bounded()}, nil
}

// itemsOf returns decoders of the versions of a chart.
func itemsOf(document []byte, chart string) (items []func(into any) error, err error) {
	if json.Valid(document) { // not all JSON is YAML for the parser
		var index struct {
			Entries map[string]json.RawMessage `json:"entries"`
		}
		if json.Unmarshal(document, &index) != nil || index.Entries == nil {
			return nil, errNoIndex
		}
		var versions []json.RawMessage
		if list := index.Entries[chart]; list != nil && json.Unmarshal(list, &versions) != nil {
			return nil, errNoIndex
		}
		for _, v := range versions {
			items = append(items, func(into any) error { return json.Unmarshal(v, into) })
		}
		return items, nil
	}
	var index struct {
		Entries yaml.Node `yaml:"entries"`
	}
	var entries map[string]yaml.Node
	if yaml.Unmarshal(document, &index) != nil || index.Entries.IsZero() || index.Entries.Decode(&entries) != nil {
		return nil, errNoIndex
	}
	var versions []yaml.Node
	if list, ok := entries[chart]; ok && list.Decode(&versions) != nil {
		return nil, errNoIndex
	}
	for _, v := range versions {
		items = append(items, v.Decode)
	}
	return items, nil
}

// decoded returns the valid versions, the newest first.
func decoded(items []func(into any) error) []*ChartVersion {
	var all []*ChartVersion
	for _, decode := range items {
		v := &ChartVersion{}
		if decode(v) != nil || len(v.Version) > maxText {
			continue
		}
		var err error
		if v.parsed, err = semver.NewVersion(v.Version); err == nil {
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b *ChartVersion) int { return b.parsed.Compare(a.parsed) })
	return all
}

// pick returns the wanted version, as Helm does: the one with exactly this name, or the newest of the range; nil for
// none. A prerelease is in a range only if the range names one.
func pick(all []*ChartVersion, wanted string, constraint *semver.Constraints) *ChartVersion {
	i := slices.IndexFunc(all, func(v *ChartVersion) bool { return v.Version == wanted })
	if i < 0 {
		i = slices.IndexFunc(all, func(v *ChartVersion) bool { return constraint.Check(v.parsed) })
	}
	if i < 0 {
		return nil
	}
	return all[i]
}

// bounded returns the version with few and short texts.
func (v *ChartVersion) bounded() *ChartVersion {
	if v == nil {
		return nil
	}
	v.URLs = slices.DeleteFunc(v.URLs, func(url string) bool { return len(url) > maxText })
	v.URLs = v.URLs[:min(len(v.URLs), maxAddresses)]
	v.Digest = v.Digest[:min(len(v.Digest), maxText)]
	return v
}
