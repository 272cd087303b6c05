package charts

import (
	"fmt"
	"slices"
	"strings"
)

// A Stage is where a hostile chart does its harm, and so where it has to be stopped at the latest.
type Stage string

// The stages.
const (
	// Unpacking: the archive is wrong as such, whatever is in its files.
	Unpacking Stage = "unpacking"
	// Loading: a file in it is wrong that is read when the chart is loaded, or when values are combined and checked.
	Loading Stage = "loading"
	// Rendering: a template does not come to an end, needs too much, or renders what cannot be read.
	Rendering Stage = "rendering"
)

// hostile is a way to make a chart that does harm.
type hostile struct {
	kind  string
	stage Stage
	make  func() []byte
}

// kinds are all of them.
var kinds = slices.Concat(archiveKinds, fileKinds, templateKinds)

// HostileKinds returns the kinds of hostile charts that do their harm at one of the stages; without stages, all.
//
// Those of the stage Rendering, and those of Loading that are called deep or bomb, may take all the memory and time there is: they are for a
// process with limits, not for that of a test.
func HostileKinds(stages ...Stage) []string {
	var names []string
	for _, k := range kinds {
		if len(stages) == 0 || slices.Contains(stages, k.stage) {
			names = append(names, k.kind)
		}
	}
	return names
}

// HostileStage returns where charts of the kind do their harm. It panics if there is no such kind.
func HostileStage(kind string) Stage { return hostileOf(kind).stage }

// Hostile returns an archive of the kind, the same bytes each time. It is small, at most some megabytes, whatever it unpacks or renders to.
// It panics if there is no such kind; see HostileKinds.
func Hostile(kind string) []byte { return hostileOf(kind).make() }

func hostileOf(kind string) hostile {
	i := slices.IndexFunc(kinds, func(k hostile) bool { return k.kind == kind })
	if i < 0 {
		must(fmt.Errorf("there is no hostile chart %q, only %s", kind, strings.Join(HostileKinds(), ", ")))
	}
	return kinds[i]
}

// SchemaRef gives a chart a schema of its values that refers to what is at the URL.
func SchemaRef(url string) Option {
	return File("values.schema.json", fmt.Sprintf(`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"greeting":{"$ref":%q}}}`, url))
}

// plain is the chart plain changed.
func plain(opts ...Option) func() []byte {
	return func() []byte { return Pack("plain", opts...) }
}
