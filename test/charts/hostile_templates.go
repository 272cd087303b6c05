package charts

import (
	"fmt"
	"strings"
)

// evil is the template that does the harm.
const evil = "templates/evil.yaml"

// templateKinds are charts with templates that are hard to render, or render what is hard to read.
var templateKinds = []hostile{
	// Ends at the depth that Go's templates allow, with some hundred megabytes of stack.
	{"recursion-template", Rendering, plain(File(evil, `{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}`))},
	// Ends at the depth that Helm allows.
	{"recursion-include", Rendering, plain(File(evil, `{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}`))},
	// Does not end before the stack does, which no program survives.
	{"recursion-tpl", Rendering, plain(
		File(evil, `{{ tpl .Values.greeting . }}`),
		File("values.yaml", "greeting: '{{ tpl .Values.greeting . }}'\n"))},
	// Includes that end, after 2^60 of them, and none of them in itself.
	{"endless-include", Rendering, plain(File(evil, doubling(60)))},
	{"endless-loop", Rendering, plain(File(evil, loops(6, "")))},
	{"endless-output", Rendering, plain(File(evil, loops(6, "0123456789abcdef")))},
	// Some gigabytes, in one step and in many.
	{"memory-at-once", Rendering, plain(File(evil, `{{ $x := repeat 1000000 "0123456789" | repeat 100000 }}`))},
	{"memory-list", Rendering, plain(File(evil, `{{ $l := list "x" }}{{ range until 60 }}{{ $l = concat $l $l }}{{ end }}`))},
	{"memory-texts", Rendering, plain(File(evil, `{{ $l := list }}{{ range until 100000 }}{{ $l = append $l (repeat 1000000 "x") }}{{ end }}`))},
	{"output-huge", Rendering, plain(File(evil, object+`{{ range until 10000 }}
  key-{{ . }}: {{ repeat 1000000 "x" }}{{ end }}`))},
	{"output-many", Rendering, plain(File(evil, `{{ range until 1000000 }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: many-{{ . }}{{ end }}`))},
	{"output-deep", Rendering, plain(File(evil, object+fmt.Sprintf("\n  deep: {{ repeat %d \"[\" }}{{ repeat %d \"]\" }}\n", depth, depth)))},
	{"output-deep-maps", Rendering, plain(File(evil, object+fmt.Sprintf("\n  deep: {{ repeat %d \"{a: \" }}{{ repeat %d \"}\" }}\n", depth, depth)))},
	{"output-alias-bomb", Rendering, plain(File(evil, object+"\n"+aliasBomb))},
	{"output-invalid-utf8", Rendering, plain(File(evil, object+"\n  key: \"\xff\xfe\xc3\x28\"\n"))},
	// Hard to parse.
	{"template-deep", Rendering, plain(File(evil, "{{ "+nested(depth, "(", ")")+" }}"))},
	{"template-deep-blocks", Rendering, plain(File(evil, strings.Repeat("{{if 1}}", 300_000)+strings.Repeat("{{end}}", 300_000)))},
}

// object is the beginning of an object whose data can go on.
const object = `apiVersion: v1
kind: ConfigMap
metadata:
  name: evil
data:`

// loops are ranges over a million numbers in ranges over a million numbers, around a text.
func loops(deep int, text string) string {
	return strings.Repeat("{{ range until 1000000 }}", deep) + text + strings.Repeat("{{ end }}", deep)
}

// doubling are templates of which each includes the next one twice.
func doubling(templates int) string {
	b := &strings.Builder{}
	for i := range templates {
		fmt.Fprintf(b, `{{ define "x%d" }}{{ include "x%d" . }}{{ include "x%d" . }}{{ end }}`, i, i+1, i+1)
	}
	fmt.Fprintf(b, `{{ define "x%d" }}{{ end }}{{ include "x0" . }}`, templates)
	return b.String()
}
