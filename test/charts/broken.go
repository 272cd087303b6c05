package charts

// BrokenTemplate is the template of the chart broken that fails, as Helm calls it.
const BrokenTemplate = "broken/templates/broken.yaml"

// BrokenLines are the lines of BrokenTemplate that fail, by the value failure.
var BrokenLines = map[string]int{"required": 9, "fail": 11, "nil": 13, "function": 15, "include": 17}

// Line of SyntaxError's template that cannot be parsed, and the template, as Helm calls it.
const (
	SyntaxTemplate = "broken/templates/syntax.yaml"
	SyntaxLine     = 4
)

// SyntaxError adds a template that cannot be parsed: SyntaxTemplate, in a chart that is called broken.
func SyntaxError() Option {
	return File("templates/syntax.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }
`)
}
