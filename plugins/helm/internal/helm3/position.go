package helm3

import (
	"regexp"
	"strconv"
	"strings"
)

// place is where a template has failed, and what Helm says of it without that.
type place struct {
	template string
	line     int
	text     string
}

var (
	// parsePlace and failPlace are those of Helm itself, execPlace that of text/template, which has one for each template that includes
	// another one; yamlPlace is of what a template has rendered.
	parsePlace = regexp.MustCompile(`parse error (?:at|in) \(([^:()]+)(?::(\d+))?(?::\d+)?\): (.*)`)
	failPlace  = regexp.MustCompile(`execution error (?:at|in) \(([^:()]+)(?::(\d+))?(?::\d+)?\): (.*)`)
	execPlace  = regexp.MustCompile(`template: ([^:\s]+):(\d+)(?::\d+)?: (?:executing "[^"]*" )?(.*)`)
	yamlPlace  = regexp.MustCompile(`YAML parse error on ([^:\s]+): (.*)`)
	yamlLine   = regexp.MustCompile(`yaml: line (\d+):`)
	panicText  = regexp.MustCompile(`rendering template failed: (.*)`)
)

// findTemplate finds the place in an error of Helm; the innermost one if templates include each other.
func findTemplate(text string) (place, bool) {
	for _, pattern := range []*regexp.Regexp{failPlace, parsePlace} {
		if m := pattern.FindStringSubmatch(text); m != nil {
			return inTemplate(m[1], m[2], m[3]), true
		}
	}
	if m := yamlPlace.FindStringSubmatch(text); m != nil {
		what := strings.TrimPrefix(strings.TrimPrefix(m[2], "error converting YAML to JSON: "), "yaml: ")
		if rest, ok := strings.CutPrefix(what, "error unmarshaling JSON: while decoding JSON: "); ok {
			return place{template: m[1], text: "template " + m[1] + ": what it renders is no object of Kubernetes: " + rest}, true
		}
		return place{template: m[1], text: "template " + m[1] + ": what it renders is no YAML: " + what}, true
	}
	if m := execPlace.FindStringSubmatch(text); m != nil {
		outer := m
		for inner := m; inner != nil; inner = execPlace.FindStringSubmatch(inner[3]) {
			m = inner
		}
		p := inTemplate(m[1], m[2], m[3])
		if m[1] != outer[1] || m[2] != outer[2] {
			p.text += " (included from " + outer[1] + ", line " + outer[2] + ")"
		}
		return p, true
	}
	if m := panicText.FindStringSubmatch(text); m != nil {
		return place{text: "the templates cannot be rendered: " + m[1]}, true
	}
	return place{}, false
}

func inTemplate(name, line, text string) place {
	p := place{template: name, text: "template " + name + ": " + text}
	if n, err := strconv.Atoi(line); err == nil {
		p.line = n
		p.text = "template " + name + ", line " + line + ": " + text
	}
	return p
}

// lineOfYAML returns the line that an error about YAML names; zero if it names none.
func lineOfYAML(text string) int {
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

// rendered is an object that a template has rendered.
type rendered struct{ kind, name, template string }

// findRendered returns the template of the object that an error of Helm or of the API server is about; empty if it may be about several.
// Both name an object by its kind and, in quotes, its name.
func findRendered(objects []rendered, text string) string {
	template := ""
	for _, o := range objects {
		if !strings.Contains(text, strconv.Quote(o.name)) || !regexp.MustCompile(`\b`+regexp.QuoteMeta(o.kind)+`\b`).MatchString(text) {
			continue
		}
		if template != "" && template != o.template {
			return ""
		}
		template = o.template
	}
	return template
}
