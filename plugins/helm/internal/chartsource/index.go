package chartsource

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
)

// The index of a repository comes from an untrusted server. Helm's own reader takes a gigabyte for an index of 50 MB,
// and any amount for one of 1 MB with many references to a long text. So the text of the versions of the wanted chart
// is cut out of the index first, and only those are parsed, one by one.
const (
	// maxOdd bounds an index with an unusual layout, from which nothing can be cut out.
	maxOdd = 2 << 20
	// maxVersions bounds the text of all versions of a chart.
	maxVersions = 4 << 20
	// maxAddresses bounds the addresses of one version.
	maxAddresses = 20
	// maxConstraint bounds the text of a range of versions.
	maxConstraint = 256
)

var (
	errNoIndex = errors.New("expected the index of a chart repository, YAML with a field entries, " +
		"but found something else")
	errOdd = fmt.Errorf(`the index is not laid out as "helm repo index" does it, and with more than %d bytes `+
		"too large for that", maxOdd)
	errTooMuch = fmt.Errorf("expected not more than %d bytes about the versions of a chart, but found more", maxVersions)
)

// version is a version of a chart.
type version struct {
	Version string `json:"version" yaml:"version"`
	// URLs of its archive, absolute or relative to the repository. Any one is enough.
	URLs []string `json:"urls" yaml:"urls"`
	// Digest of the archive in the index; empty for none.
	Digest string `json:"digest" yaml:"digest"`

	parsed *semver.Version
}

// versions of a chart, the newest first. Versions other than semantic ones are left out, as Helm does.
type versions []*version

// parseIndex returns the versions of a chart in an index. No error quotes the index.
func parseIndex(document []byte, chart string) (versions, error) {
	parse := parseYAML
	if json.Valid(document) {
		parse = parseJSON
	}
	found, err := parse(document, chart)
	slices.SortStableFunc(found, func(a, b *version) int { return b.parsed.Compare(a.parsed) })
	return found, err
}

// add adds a version; it leaves out an invalid one.
func (vs versions) add(decode func(into any) error) versions {
	v := &version{}
	if err := decode(v); err != nil {
		return vs
	}
	var err error
	if v.parsed, err = semver.NewVersion(v.Version); err != nil {
		return vs
	}
	v.URLs = v.URLs[:min(len(v.URLs), maxAddresses)]
	return append(vs, v)
}

func parseJSON(document []byte, chart string) (versions, error) {
	var index struct {
		Entries json.RawMessage `json:"entries"`
	}
	if err := json.Unmarshal(document, &index); err != nil || index.Entries == nil {
		return nil, errNoIndex
	}
	// One chart after the other, to decode only the wanted one.
	d := json.NewDecoder(bytes.NewReader(index.Entries))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errNoIndex
	}
	for d.More() {
		name, err := d.Token()
		var text json.RawMessage
		if err := errors.Join(err, d.Decode(&text)); err != nil {
			return nil, errNoIndex
		}
		if name != chart {
			continue
		}
		if len(text) > maxVersions {
			return nil, errTooMuch
		}
		var items []json.RawMessage
		if err := json.Unmarshal(text, &items); err != nil {
			return nil, errNoIndex
		}
		var found versions
		for _, item := range items {
			found = found.add(func(into any) error { return json.Unmarshal(item, into) })
		}
		return found, nil
	}
	return nil, nil
}

func parseYAML(document []byte, chart string) (versions, error) {
	var found versions
	var items []yaml.Node
	text, usual := cutVersions(document, chart)
	if len(text) > maxVersions {
		return nil, errTooMuch
	}
	// It may also refer to another part of the index.
	if !usual || yaml.Unmarshal(text, &items) != nil {
		if len(document) > maxOdd {
			return nil, errOdd
		}
		var index struct {
			Entries map[string][]yaml.Node `yaml:"entries"`
		}
		if err := yaml.Unmarshal(document, &index); err != nil || index.Entries == nil {
			return nil, errNoIndex
		}
		items = index.Entries[chart]
	}
	for _, item := range items {
		found = found.add(item.Decode)
	}
	return found, nil
}

// cutVersions returns the list of the versions of a chart from an index in the layout of "helm repo index" and its
// like: the field entries at the left, below it the names of the charts, all indented the same, and below each its
// versions, each beginning with a dash. Every child is indented more than its parent, so text about other charts need
// not be parsed.
func cutVersions(document []byte, chart string) (list []byte, usual bool) {
	names := -1 // their indentation; -1 if not known yet
	begin, end := -1, 0
	inEntries := false
	cut := func(end int) []byte {
		if begin < 0 {
			return nil
		}
		return document[begin:end]
	}
	for line := range bytes.Lines(document) {
		start := end
		end += len(line)
		text := bytes.TrimLeft(line, " ")
		indent := len(line) - len(text)
		text = bytes.TrimRight(text, " \t\r\n")
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		isItem := text[0] == '-' && (len(text) == 1 || text[1] == ' ')
		switch {
		case text[0] == '\t', indent == 0 && bytes.IndexByte([]byte("{[?"), text[0]) >= 0:
			return nil, false
		case !inEntries:
			key, value, _ := splitKey(text)
			inEntries = indent == 0 && key == "entries"
			if inEntries && value != "" {
				return nil, isNothing(value)
			}
		case indent == 0:
			// The next field of the index, or the end of the document.
			return cut(start), true
		case names < 0 && isItem, indent < names:
			return nil, false
		case names < 0 || indent == names && !isItem:
			if begin >= 0 {
				return cut(start), true
			}
			names = indent
			key, value, isKey := splitKey(text)
			if key == chart {
				begin = end
			}
			if !isKey || begin >= 0 && value != "" {
				return nil, isKey && isNothing(value)
			}
		}
	}
	return cut(end), inEntries
}

// isNothing reports whether a value is an empty one.
func isNothing(value string) bool { return slices.Contains([]string{"{}", "[]", "null", "~"}, value) }

// splitKey splits a line into a key, plain or in quotes, and the value on the same line without a comment.
func splitKey(text []byte) (key, value string, ok bool) {
	key, value, ok = strings.Cut(string(text)+" ", ": ")
	value, _, _ = strings.Cut(" "+value, " #")
	return strings.Trim(strings.TrimSpace(key), `"'`), strings.TrimSpace(value),
		ok && !strings.ContainsRune("{[?&*!|>%@`<", rune(text[0]))
}

// parseConstraint reads a version or a range of versions, such as "1.2.3", "^1.2" or ">=1.2.0 <2.0.0"; empty for the
// newest other than a prerelease.
func parseConstraint(text string) (*semver.Constraints, error) {
	if len(text) > maxConstraint {
		return nil, fmt.Errorf("expected not more than %d characters, but found %d", maxConstraint, len(text))
	}
	constraint, err := semver.NewConstraint(cmp.Or(text, "*"))
	if err != nil {
		return nil, fmt.Errorf("expected a version such as 1.2.3 or a range of versions such as ^1.2: %w", err)
	}
	return constraint, nil
}

// pick returns the wanted version, as Helm does: the one with exactly this name, or the newest of the range; nil for
// none. A prerelease is in a range only if the range names one.
func (vs versions) pick(wanted string, constraint *semver.Constraints) *version {
	i := slices.IndexFunc(vs, func(v *version) bool { return v.Version == wanted })
	if i < 0 {
		i = slices.IndexFunc(vs, func(v *version) bool { return constraint.Check(v.parsed) })
	}
	if i < 0 {
		return nil
	}
	return vs[i]
}
