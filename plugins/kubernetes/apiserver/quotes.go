package apiserver

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// fieldErrors are the first words of API servers about an invalid field. All but the last five continue with its
// value.
var fieldErrors = []struct {
	kind   string
	quotes bool
}{
	{"Invalid value", true}, {"Unsupported value", true}, {"Duplicate value", true}, {"Not found", true},
	{"Too many", true}, {"Too few", true},
	{"Required value", false}, {"Forbidden", false}, {"Too long", false}, {"Too short", false},
	{"Internal error", false},
}

// explanation returns the text of an error about a field without the field and its value: its kind, left out for an
// explained invalid value, and the first line of its explanation; further lines show differences. It is empty for
// other errors.
func explanation(message string) string {
	for _, e := range fieldErrors {
		rest, ok := strings.CutPrefix(message, e.kind)
		if !ok || rest != "" && rest[0] != ':' {
			continue
		}
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, ":"), " ")
		if e.quotes {
			rest = afterValue(rest)
		}
		rest, _, _ = strings.Cut(rest, "\n")
		switch rest = ownWords(strings.TrimSpace(rest)); {
		case rest == "":
			return e.kind
		case e.kind == "Invalid value":
			return rest
		default:
			return e.kind + ": " + rest
		}
	}
	return ""
}

// afterValue returns the text after the value at its beginning; all of it without one.
func afterValue(text string) string {
	return strings.TrimPrefix(text[valueAt(text):], ": ")
}

// valueAt returns the length of the value at the beginning of a text. API servers write values as JSON, texts as Go
// quotes them, and values unfit for JSON in the syntax of Go.
func valueAt(text string) int {
	decoder := json.NewDecoder(strings.NewReader(text))
	var value json.RawMessage
	if decoder.Decode(&value) == nil {
		if n := int(decoder.InputOffset()); n == len(text) || strings.HasPrefix(text[n:], ": ") {
			return n
		}
	}
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		if n := len(quoted); n == len(text) || strings.HasPrefix(text[n:], ": ") {
			return n
		}
	}
	if begin := goValue.FindStringIndex(text); begin != nil {
		return begin[1] - 1 + closed(text[begin[1]-1:])
	}
	return 0
}

// goValue is the beginning of a value in the syntax of Go, with the bracket around its content.
var goValue = regexp.MustCompile(`^(?:[&*]*(?:\[\]|map\[[^\]]*\])*[\w.*/]*(?:\[\])?\{|map\[|\(\*?[\w./]+\)\()`)

// dump is the beginning of a value with fields within a text.
var dump = regexp.MustCompile(
	`(?:map\[[^\]]*\]\S*)?\{[\s\p{Z}]*[-+]?[\s\p{Z}]*` +
		`(?:"(?:[^"\\]|\\.)*"[\s\p{Z}]*:|\w+[\s\p{Z}]*:|\.\.\.|&?[\w.\[\]]*\{)` +
		`|&[\w./]*\{|map\[`)

// closed returns the length of a text from a bracket to its counterpart; that of all if there is none.
func closed(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"', '`':
			if quoted, err := strconv.QuotedPrefix(text[i:]); err == nil {
				i += len(quoted) - 1
			}
		case '{', '[', '(':
			depth++
		case '}', ']', ')':
			if depth--; depth <= 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// quoting are the known forms of quotes by decoders and converters, beside those of package redact, with the
// remaining text of each.
var quoting = []struct {
	pattern *regexp.Regexp
	stays   string
}{
	{regexp.MustCompile(`(?s)(couldn't get version/kind); json parse error: .*`), "$1"},
	{regexp.MustCompile(`(cannot unmarshal \w+) .*? ?into Go `), "$1 into Go "},
	{regexp.MustCompile(`(?m)\.(\S.*): field not declared in schema$`), `unknown field "$1"`},
	{regexp.MustCompile(`(?s)(expected [a-z() ]+), got .*?(\n {2}\.|$)`), "$1$2"},
	{regexp.MustCompile(`(?m)(duplicate entries) for key \[=.*$`), "$1"},
	{regexp.MustCompile(`(?s)(failed to decode last applied obj: ).*`), "${1}" + omitted},
	{regexp.MustCompile(`(?s)(error (?:decoding|encoding) [\w ]+ (?:from|for) ).*`), "${1}" + omitted},
	{regexp.MustCompile(`\b[0-9a-f]{40,}\b`), omitted},
}

// omitted is the replacement of an omitted value.
const omitted = "…"

// ownWords returns a text without values recognized by their form: those of errors about fields, whole objects, and
// input unreadable for decoders.
func ownWords(text string) string {
	for _, q := range quoting {
		text = q.pattern.ReplaceAllString(text, q.stays)
	}
	text = withoutFieldValues(text)
	for from := 0; ; {
		begin := dump.FindStringIndex(text[from:])
		if begin == nil {
			return text
		}
		at := from + begin[0] + strings.IndexAny(text[from+begin[0]:], "{[")
		end := at + closed(text[at:])
		if text[at] == '[' {
			if elements := mapType.FindString(text[end:]); elements != "" {
				end += len(elements) - 1
				end += closed(text[end:])
			} else if !strings.Contains(text[at:end], ":") { // a type
				from = end
				continue
			}
		}
		text = text[:at] + "{" + omitted + "}" + text[end:]
		from = at + len("{"+omitted+"}")
	}
}

// mapType is the text between the type of a map's keys and its content in the syntax of Go.
var mapType = regexp.MustCompile(`^(?:\[\]|\*)*[\w./]+(?:\[[\w.]*\][\w.]*)*\{|^\{`)

// fieldValue is an error about a field within a text, as webhooks pass them on.
var fieldValue = regexp.MustCompile(`(Invalid value|Unsupported value|Duplicate value|Not found): `)

func withoutFieldValues(text string) string {
	for from := 0; ; {
		begin := fieldValue.FindStringIndex(text[from:])
		if begin == nil {
			return text
		}
		at := from + begin[1]
		n := valueAt(text[at:])
		if n == 0 { // in a list of errors the value may lack an explanation
			if quoted, err := strconv.QuotedPrefix(text[at:]); err == nil {
				n = len(quoted)
			}
		}
		rest := strings.TrimPrefix(text[at+n:], ": ")
		if n > 0 && rest == text[at+n:] {
			at -= len(": ")
		}
		text, from = text[:at]+rest, at
	}
}

// quoted finds a text in quotes, with the word before it.
var quoted = regexp.MustCompile("(\\w+)?( ?)(\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`)")

// named are the words before quoted names.
var named = map[string]bool{
	"field": true, "kind": true, "version": true, "group": true, "resource": true, "name": true, "namespace": true,
	"webhook": true, "service": true, "key": true, "path": true, "method": true, "verb": true, "User": true,
	"Get": true, "Post": true, "type": true,
}

// withoutQuotes returns a text without the texts in quotes, except names.
func withoutQuotes(text string) string {
	return quoted.ReplaceAllStringFunc(text, func(found string) string {
		parts := quoted.FindStringSubmatch(found)
		if named[parts[1]] {
			return found
		}
		return parts[1] + parts[2] + `"` + omitted + `"`
	})
}
