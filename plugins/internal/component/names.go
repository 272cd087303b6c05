package component

import (
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

const (
	// maxName bounds the name of a component, maxTag a tag. Both are bounds of the specifications.
	maxName = 255
	maxTag  = 128
)

var (
	componentName = regexp.MustCompile(
		`^[a-z][-a-z0-9]*([.][a-z][-a-z0-9]*)*[.][a-z]{2,}(/[a-z][-a-z0-9_]*([.][a-z][-a-z0-9_]*)*)+$`)
	elementName = regexp.MustCompile(`^[a-z0-9][-_+a-z0-9]*[a-z0-9]$`)
)

// CheckName returns an error unless field has a valid name and version of a component. Valid ones are fit for the
// path of a registry.
func CheckName(field, name, version string) error {
	if len(name) > maxName || !componentName.MatchString(name) {
		return invalidf("%s has the name %s, but expected the name of a component, such as example.com/shop",
			field, shown(name))
	}
	if _, err := semver.NewVersion(versionOf(version)); err != nil || len(TagOf(version)) > maxTag {
		return invalidf("%s has the version %s, but expected a semantic version of at most %d characters, such as 1.2.3",
			field, shown(version), maxTag)
	}
	return nil
}

// buildMark stands in a tag for the "+" of a version, because no tag has a "+".
const buildMark = ".build-"

// TagOf returns the tag of a component version: "1.0.0+abc" has "1.0.0.build-abc".
func TagOf(version string) string { return strings.ReplaceAll(version, "+", buildMark) }

// versionOf returns the version of a tag. A version is returned as it is.
func versionOf(tag string) string {
	if at := strings.LastIndex(tag, buildMark); at >= 0 {
		return tag[:at] + "+" + tag[at+len(buildMark):]
	}
	return tag
}
