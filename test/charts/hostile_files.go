package charts

import (
	"fmt"
	"strings"
)

// depth is how deep things are nested that nobody nests by hand, and schemaDepth how deep a schema can be that is in a file which Helm reads:
// it has at most 5 MiB.
const (
	depth       = 1_000_000
	schemaDepth = 500_000
)

// fileKinds are charts with files that are hard to read.
var fileKinds = []hostile{
	{"name-traversal", Loading, plain(metadata("name", "../x"))},
	{"name-absolute", Loading, plain(metadata("name", "/etc/x"))},
	{"version-traversal", Loading, plain(metadata("version", "1.0.0/../../x"))},
	{"metadata-missing", Loading, plain(Without(metadataFile))},
	{"metadata-no-yaml", Loading, plain(File(metadataFile, "]["))},
	{"metadata-deep", Loading, plain(alsoSaying("annotations: " + nested(depth, "[", "]")))},
	{"metadata-alias-bomb", Loading, plain(alsoSaying(aliasBomb))},
	// Helm's command refuses charts whose dependencies are not in them, and fetches none unless it is told to; its library does neither.
	{"dependency-missing", Loading, plain(alsoSaying(
		"dependencies:\n- name: elsewhere\n  version: 1.0.0\n  repository: http://192.0.2.1/charts\n"))},
	{"dependency-traversal", Loading, plain(alsoSaying(
		"dependencies:\n- name: ../../x\n  version: 1.0.0\n  repository: file:///etc\n"))},
	{"values-deep", Loading, plain(File("values.yaml", "deep: "+nested(depth, "[", "]")))},
	{"values-deep-maps", Loading, plain(File("values.yaml", "deep: "+nested(depth, "{a: ", "}")))},
	{"values-alias-bomb", Loading, plain(File("values.yaml", aliasBomb))},
	{"values-invalid-utf8", Loading, plain(File("values.yaml", "greeting: \"\xff\xfe\xc3\x28\"\n"))},
	// No address that can be reached: it is for documentation.
	{"schema-ref-http", Loading, plain(SchemaRef("http://192.0.2.1/schema.json"))},
	{"schema-ref-file", Loading, plain(SchemaRef("file:///etc/passwd"))},
	// A file without an end.
	{"schema-ref-device", Loading, plain(SchemaRef("file:///dev/zero"))},
	{"schema-ref-itself", Loading, plain(SchemaRef("#/properties/greeting"))},
	{"schema-deep", Loading, plain(File("values.schema.json", nested(schemaDepth, `{"not":`, "}")))},
	{"schema-no-json", Loading, plain(File("values.schema.json", "]["))},
}

// aliasBomb is a YAML document of 10^10 texts.
var aliasBomb = func() string {
	b := &strings.Builder{}
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return b.String()
}()

// nested is something in itself, so many times.
func nested(depth int, opening, closing string) string {
	return strings.Repeat(opening, depth) + strings.Repeat(closing, depth)
}

// metadata gives something that a chart says of itself another value.
func metadata(field, value string) Option { return func(s *source) { s.set(field, value) } }

// alsoSaying adds to what a chart says of itself.
func alsoSaying(content string) Option {
	return func(s *source) { s.files[metadataFile] = append(s.files[metadataFile], content...) }
}
