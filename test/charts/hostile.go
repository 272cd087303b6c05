package charts

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
)

const (
	// bombBlocks are the mebibytes of zeros in a bomb.
	bombBlocks = 1024
	// depth is how deep things are nested that nobody nests by hand.
	depth = 1_000_000
	// object is the beginning of an object whose data can go on.
	object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: evil\ndata:"
)

// block is a mebibyte of zeros.
var block = make([]byte, 1<<20)

// A Stage is where hostile charts do their harm, and so where they have to be stopped at the latest. It makes them by
// their kinds.
type Stage map[string]func() []byte

// Unpacking are charts whose archive is wrong as such, whatever is in its files.
var Unpacking = Stage{
	"zip-bomb":              func() []byte { return zeros(bombHead()) },
	"nested-bomb":           func() []byte { return subCharts(zeros(bombHead()), 2) },
	"nested-deep":           func() []byte { return subCharts(Pack("plain"), 64) },
	"many-files":            with(many(12_000, "plain/files/%06d", nil)...),
	"path-traversal":        withFile("plain/../../../../tmp/evil"),
	"path-traversal-inside": withFile("plain/templates/../../../evil"),
	"path-long":             withFile("plain/" + strings.Repeat("a/", 100_000) + "evil"),
	"symlink":               withSpecial(tar.TypeSymlink, "plain/templates/evil.yaml", "/etc/passwd"),
	"empty":                 func() []byte { return nil },
	"no-files":              func() []byte { return zipped(tarOf()) },
	"no-gzip":               func() []byte { return chartFile("plain").content },
	"truncated":             func() []byte { b := Pack("plain"); return b[:len(b)/2] },
}

// Loading are charts in which a file is wrong that is read when the chart is loaded, or when values are combined and
// checked.
var Loading = Stage{
	"name-traversal":      plain(metadata("name", "../x")),
	"version-traversal":   plain(metadata("version", "1.0.0/../../x")),
	"metadata-missing":    plain(Without(metadataFile)),
	"metadata-no-yaml":    plain(File(metadataFile, "][")),
	"metadata-alias-bomb": plain(alsoSaying(aliasBomb())),
	// Helm's command refuses charts whose dependencies are not in them, and fetches none unless it is told to; its
	// library does neither. The address is for documentation: nobody is there.
	"dependency-missing":   plain(dependency("elsewhere", "http://192.0.2.1/charts")),
	"dependency-traversal": plain(dependency("../../x", "file:///etc")),
	"values-deep":          plain(values("deep: " + nested(depth, "[", "", "]"))),
	"values-alias-bomb":    plain(values(aliasBomb())),
	"values-invalid-utf8":  plain(values("greeting: \"\xff\xfe\xc3\x28\"\n")),
	"schema-ref-http":      plain(schemaRef("http://192.0.2.1/schema.json")),
	"schema-ref-file":      plain(schemaRef("file:///etc/passwd")),
	"schema-ref-itself":    plain(schemaRef("#/properties/greeting")),
	"schema-deep":          plain(schema(nested(depth/2, `{"not":`, "", "}"))), // within the 5 MiB that Helm reads
	"schema-no-json":       plain(schema("][")),
}

// Rendering are charts in which a template does not come to an end, needs too much, or renders what cannot be read, or
// in which a file needs too much that is read before. These charts, and those of Loading that are called deep or bomb,
// may take all the memory and time there is: they are for a process with limits, not for that of a test.
var Rendering = Stage{
	// Ends at the depth that Go's templates allow, with some hundred megabytes of stack.
	"recursion-template": plain(evil(`{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}`)),
	// Does not end before the stack does, which no program survives.
	"recursion-tpl": plain(evil(`{{ tpl .Values.greeting . }}`), values("greeting: '{{ tpl .Values.greeting . }}'\n")),
	// Includes that end, after 2^60 of them, and none of them in itself.
	"endless-include": plain(evil(doubling(60))),
	"endless-loop":    plain(evil(nested(6, "{{ range until 1000000 }}", "", "{{ end }}"))),
	"endless-output":  plain(evil(nested(6, "{{ range until 1000000 }}", "0123456789abcdef", "{{ end }}"))),
	// Some gigabytes, in one step and in many.
	"memory-at-once": plain(evil(`{{ $x := repeat 1000000 "0123456789" | repeat 100000 }}`)),
	"memory-list":    plain(evil(`{{ $l := list "x" }}{{ range until 60 }}{{ $l = concat $l $l }}{{ end }}`)),
	"output-huge": plain(evil(object +
		`{{ range until 10000 }}{{ printf "\n  key-%d: " . }}{{ repeat 1000000 "x" }}{{ end }}`)),
	"output-many": plain(evil(
		"{{ range until 1000000 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: many-{{ . }}}{{ end }}")),
	"output-deep":         plain(evil(object + deep("[", "]"))),
	"output-alias-bomb":   plain(evil(object + "\n" + aliasBomb())),
	"output-invalid-utf8": plain(evil(object + "\n  key: \"\xff\xfe\xc3\x28\"\n")),
	// Hard to parse.
	"template-deep": plain(evil("{{ " + nested(depth, "(", "", ")") + " }}")),
	// Gigabytes of JSON, and a time that is the square of the lines, before anything is rendered.
	"values-text-bomb": plain(values(
		"a: &a " + strings.Repeat("x", 500_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]\n")),
	"values-tags": plain(values(numbered(200_000, "%%TAG !a%d! b\n") + "---\na: 1\n")),
	"schema-many": plain(schema(`{"properties":{` + numbered(300_000, `"a%d":{},`) + `"b":{}}}`)),
}

// HostileKinds returns the kinds of hostile charts that do their harm at one of the stages, sorted; without stages,
// all.
func HostileKinds(stages ...Stage) []string { return slices.Sorted(maps.Keys(together(stages))) }

// Hostile returns an archive of the kind, the same bytes each time. It is small, at most some megabytes, whatever it
// unpacks or renders to. It panics if there is no such kind; see HostileKinds.
func Hostile(kind string) []byte { return together(nil)[kind]() }

func together(stages []Stage) Stage {
	if len(stages) == 0 {
		stages = []Stage{Unpacking, Loading, Rendering}
	}
	all := Stage{}
	for _, s := range stages {
		maps.Copy(all, s)
	}
	return all
}

// withFile is the chart plain with another file.
func withFile(name string) func() []byte { return with(fileEntry(name, []byte(object))) }

// withSpecial is the chart plain with another entry that is no file.
func withSpecial(typeflag byte, name, target string) func() []byte {
	return with(entry{header: tar.Header{Typeflag: typeflag, Name: name, Linkname: target}})
}

func with(more ...entry) func() []byte {
	return func() []byte { return zipped(tarOf(append(entries("plain"), more...)...)) }
}

// many are files of the same content.
func many(n int, name string, content []byte) []entry {
	files := make([]entry, n)
	for i := range files {
		files[i] = fileEntry(fmt.Sprintf(name, i), content)
	}
	return files
}

func chartFile(name string) entry {
	return fileEntry(name+"/"+metadataFile, fmt.Appendf(nil, "apiVersion: v2\nname: %s\nversion: 1.0.0\n", name))
}

// subCharts is a chart with a sub-chart, packed, which has one, too, and so on. Even of a bomb it is some kilobytes
// only: what a bomb is packed to is as monotonous as what is in it.
func subCharts(chart []byte, deep int) []byte {
	for range deep {
		chart = zipped(tarOf(append(many(1, "nested/charts/plain-%d.tgz", chart), chartFile("nested"))...))
	}
	return chart
}

// bombHead is the tar of a chart up to the content of a file of zeros. The blocks of a bomb are that and the end of the
// tar, which is 1024 zeros.
func bombHead() []byte {
	b := bytes.NewBuffer(tarOf(chartFile("bomb"))[:1024])
	file := &tar.Header{Typeflag: tar.TypeReg, Name: "bomb/files/zeros", Size: bombBlocks<<20 - 1024}
	must(tar.NewWriter(b).WriteHeader(file))
	return b.Bytes()
}

// zeros packs something and the blocks of a bomb after it. One block is packed and repeated, since packing all takes
// seconds.
func zeros(head []byte) []byte {
	sum := crc32.ChecksumIEEE(head)
	for range bombBlocks {
		sum = crc32.Update(sum, crc32.IEEETable, block)
	}
	begin, end := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}, []byte{3, 0} // as gzip and its last piece are
	packed := bytes.Join([][]byte{begin, deflated(head), bytes.Repeat(deflated(block), bombBlocks), end}, nil)
	packed = binary.LittleEndian.AppendUint32(packed, sum)
	return binary.LittleEndian.AppendUint32(packed, uint32((len(head)+bombBlocks<<20)&0xffffffff))
}

// deflated packs a piece of a stream. It refers to nothing before it, so that it can be repeated.
func deflated(content []byte) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	must(err)
	_, _ = w.Write(content) // to memory, which does not fail
	must(w.Flush())
	return b.Bytes()
}

// plain is the chart plain changed.
func plain(opts ...Option) func() []byte { return func() []byte { return Pack("plain", opts...) } }

func values(content string) Option { return File("values.yaml", content) }

func schema(content string) Option { return File("values.schema.json", content) }

func schemaRef(url string) Option {
	const draft = "http://json-schema.org/draft-07/schema#"
	return schema(fmt.Sprintf(`{"$schema":%q,"properties":{"greeting":{"$ref":%q}}}`, draft, url))
}

func dependency(name, repository string) Option {
	return alsoSaying(fmt.Sprintf("dependencies:\n- {name: %s, version: 1.0.0, repository: %q}\n", name, repository))
}

// evil is the template that does the harm.
func evil(template string) Option { return File("templates/evil.yaml", template) }

// alsoSaying adds to what a chart says of itself.
func alsoSaying(content string) Option {
	return func(files map[string][]byte) { files[metadataFile] = append(files[metadataFile], content...) }
}

// aliasBomb is a YAML document of 10^10 texts.
func aliasBomb() string {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	return bomb
}

// nested is something in itself, so many times, around a core.
func nested(depth int, opening, core, closing string) string {
	return strings.Repeat(opening, depth) + core + strings.Repeat(closing, depth)
}

// numbered repeats a text with a number in it.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// deep is the end of a template that renders a value in itself.
func deep(opening, closing string) string {
	return fmt.Sprintf("\n  deep: {{ repeat %d %q }}{{ repeat %d %q }}\n", depth, opening, depth, closing)
}

// doubling are templates of which each includes the next one twice.
func doubling(templates int) string {
	text := fmt.Sprintf(`{{ define "x%d" }}{{ end }}`, templates)
	for i := range templates {
		text += fmt.Sprintf(`{{ define "x%d" }}{{ include "x%d" . }}{{ include "x%[2]d" . }}{{ end }}`, i, i+1)
	}
	return text + `{{ include "x0" . }}`
}
