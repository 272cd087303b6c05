package helm3

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pergola-deploy/pergola/plugins/internal/redact"
)

const (
	// mostLines is how many lines of the log go with an error.
	mostLines = 10
	// longestLine and longestMessage bound texts, in bytes.
	longestLine    = 500
	longestMessage = 4000
)

// journal is Helm's log.
type journal struct {
	audience *audience
	secrecy  *redact.Redactor

	mu    sync.Mutex
	lines []string
}

// printf is Helm's log function.
func (j *journal) printf(format string, args ...any) { j.add(fmt.Sprintf(format, args...)) }

// add tells the observer a line, unless it was among the last ones already: Helm says some things again and again while it waits.
func (j *journal) add(text string) {
	line := shorten(j.secrecy.Hide(tidy(text)), longestLine)
	if line == "" {
		return
	}
	j.mu.Lock()
	known := slices.Contains(j.lines, line)
	if !known && !steps.MatchString(line) {
		j.lines = append(j.lines, line)
		j.lines = j.lines[max(0, len(j.lines)-mostLines):]
	}
	j.mu.Unlock()
	if !known {
		j.audience.log(line)
	}
}

// steps are lines about what Helm does in any case, most of it with its own records. They explain no error.
var steps = regexp.MustCompile(`^(?:getting|listing|creating|updating|deleting|preparing|performing|checking|resetting|superseding) |` +
	`^(?:uninstall: Deleting|purge requested for|Clearing) `)

// tail returns the last lines, each once and without those that say what a message says already.
func (j *journal) tail(message string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(j.lines), func(line string) bool { return repeats(line, message) })
}

// repeats tells whether a message has a line in it, be it without what Helm puts in front of errors, such as "error updating the resource".
// What is left then has to be most of the line, for a few words may be there by chance.
func repeats(line, message string) bool {
	line = strings.TrimSuffix(line, "…")
	for rest, more := line, true; more && 2*len(rest) >= len(line); _, rest, more = strings.Cut(rest, ": ") {
		if strings.Contains(message, rest) {
			return true
		}
	}
	return false
}

var (
	errorCount = regexp.MustCompile(`\d+ errors? occurred:\s*`)
	bullets    = regexp.MustCompile(`\s*\n\s*\*\s*`)
	spaces     = regexp.MustCompile(`\s+`)
	goType     = regexp.MustCompile(`(?:json: )?cannot unmarshal (\w+)(?: \S+)? into Go (?:struct field [^\s.]+\.(\S+)|value) of type ([^\s;,:]+)`)
)

// tidy makes one line of a text, and of lists of errors as the library writes them.
func tidy(text string) string {
	text = errorCount.ReplaceAllString(text, "")
	text = strings.TrimPrefix(strings.TrimSpace(bullets.ReplaceAllString(text, "; ")), "* ")
	return goType.ReplaceAllStringFunc(spaces.ReplaceAllString(text, " "), withoutGo)
}

// withoutGo says of a value of a wrong type what package encoding/json says, in the words of YAML.
func withoutGo(text string) string {
	m := goType.FindStringSubmatch(text)
	found, ok := map[string]string{"array": "a list", "object": "a mapping", "string": "a text", "bool": "true or false"}[m[1]]
	if !ok {
		found = "a " + m[1]
	}
	where := ""
	if m[2] != "" {
		where = " in field " + m[2]
	}
	expected := ""
	switch t := m[3]; {
	case t == "string":
		expected = ", expected a text"
	case t == "bool":
		expected = ", expected true or false"
	case strings.HasPrefix(t, "int"), strings.HasPrefix(t, "uint"), strings.HasPrefix(t, "float"):
		expected = ", expected a number"
	case strings.HasPrefix(t, "[]"):
		expected = ", expected a list"
	case strings.HasPrefix(t, "map["), t == "releaseutil.SimpleHead":
		expected = ", expected a mapping"
	}
	return "found " + found + where + expected
}

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
