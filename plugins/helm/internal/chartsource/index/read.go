package index

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// errUnusual says that a reader does not know the layout; another may.
var errUnusual = errors.New("unusual layout")

// readLines reads an index in YAML as "helm repo index" and its like write it: the field entries at the left, below it the names of the
// charts, all indented the same, and below each the versions, each beginning with a dash. Everything that belongs to something is indented
// more than it, so nothing has to be understood that is not about the chart.
func readLines(r io.Reader, chart string, into *collector) error {
	l := &layout{chart: chart, into: into, names: -1, items: -1}
	lines := bufio.NewReaderSize(r, 64<<10)
	for begins := true; ; {
		line, err := lines.ReadSlice('\n')
		whole := !errors.Is(err, bufio.ErrBufferFull)
		if err != nil && whole && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 0 {
			if stop := l.read(line, begins); errors.Is(stop, errDone) {
				return l.end()
			} else if stop != nil {
				return stop
			}
		}
		if errors.Is(err, io.EOF) {
			return l.end()
		}
		begins = whole
	}
}

// errDone says that the rest of the index does not matter.
var errDone = errors.New("done")

// layout is where in the index the lines are.
type layout struct {
	chart string
	into  *collector
	// inEntries is set below the field entries, wanted below the name of the chart; found once there was one.
	inEntries, wanted, found bool
	// names and items are how far the names of charts and the dashes of the wanted chart's versions are indented; -1 if not known yet.
	names, items int
	item         bytes.Buffer
}

// read takes one line, or a piece of one that is very long. Only the first piece says where it belongs.
func (l *layout) read(line []byte, begins bool) error {
	if !begins {
		return l.keep(line)
	}
	text := bytes.TrimLeft(line, " ")
	indent := len(line) - len(text)
	text = bytes.TrimRight(text, " \t\r\n")
	switch {
	case len(text) == 0, text[0] == '#':
		return l.keep(line)
	case text[0] == '\t':
		return errUnusual
	case !l.inEntries:
		return l.top(indent, text)
	case indent == 0 && text[0] != '-', bytes.HasPrefix(text, []byte("---")) && indent == 0:
		return errDone // the next field of the index, or the end of the document
	case l.names < 0:
		if indent == 0 || text[0] == '-' {
			return errUnusual
		}
		l.names = indent
		return l.name(text)
	case indent == l.names && !isItem(text):
		return l.name(text)
	case indent < l.names:
		return errUnusual
	case l.wanted:
		return l.version(indent, line, text)
	default:
		return nil
	}
}

// top is about lines before entries.
func (l *layout) top(indent int, text []byte) error {
	if indent > 0 {
		return nil
	}
	name, value, ok := splitKey(text)
	switch {
	case !ok && (text[0] == '{' || text[0] == '[' || text[0] == '?'):
		return errUnusual
	case name != "entries":
		return nil
	case value == "{}" || value == "null" || value == "~":
		l.found = true
		return errDone
	case value != "":
		return errUnusual
	}
	l.inEntries = true
	return nil
}

// name is the line of the name of a chart.
func (l *layout) name(text []byte) error {
	if l.wanted {
		return errDone
	}
	name, value, ok := splitKey(text)
	switch {
	case !ok || name == "<<":
		return errUnusual
	case name != l.chart:
		return nil
	case value == "[]" || value == "null" || value == "~":
		return errDone
	case value != "":
		return errUnusual
	}
	l.wanted = true
	return nil
}

// version is about lines of the wanted chart.
func (l *layout) version(indent int, line, text []byte) error {
	switch {
	case l.items < 0 && !isItem(text), l.items >= 0 && indent < l.items, indent == l.items && !isItem(text):
		return errUnusual
	case l.items < 0 || indent == l.items:
		if err := l.flush(); err != nil {
			return err
		}
		l.items = indent
	}
	return l.keep(line)
}

// keep adds a line to the version it belongs to.
func (l *layout) keep(line []byte) error {
	if l.items < 0 || !l.wanted {
		return nil
	}
	if l.item.Len()+len(line) > mostOfVersion {
		return ErrTooMuch
	}
	l.item.Write(line)
	return nil
}

// flush parses the version that has been read.
func (l *layout) flush() error {
	if l.item.Len() == 0 {
		return nil
	}
	defer l.item.Reset()
	var items []yaml.Node
	if err := yaml.Unmarshal(l.item.Bytes(), &items); err != nil || len(items) != 1 {
		return errUnusual // such as one that refers to another part of the index
	}
	return l.into.add(items[0].Decode)
}

func (l *layout) end() error {
	if !l.inEntries && !l.found {
		return errUnusual
	}
	return l.flush()
}

func isItem(text []byte) bool {
	return text[0] == '-' && (len(text) == 1 || text[1] == ' ')
}

// splitKey splits a line in a key, plain or in quotes, and the value on the same line without a comment.
func splitKey(text []byte) (name, value string, ok bool) {
	line := string(text)
	switch line[0] {
	case '"':
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return "", "", false
		}
		if name, err = strconv.Unquote(quoted); err != nil {
			return "", "", false
		}
		line = line[len(quoted):]
	case '\'':
		end := strings.IndexByte(line[1:], '\'')
		if end < 0 {
			return "", "", false
		}
		name, line = line[1:end+1], line[end+2:]
	case '{', '[', '?', '&', '*', '!', '|', '>', '%', '@', '`':
		return "", "", false
	default:
		i := strings.Index(line+" ", ": ")
		if i < 0 {
			return "", "", false
		}
		name, line = strings.TrimRight(line[:i], " "), line[i:]
	}
	value, ok = strings.CutPrefix(strings.TrimLeft(line, " "), ":")
	if !ok || value != "" && value[0] != ' ' && value[0] != '\t' {
		return "", "", false
	}
	value = strings.TrimSpace(value)
	if strings.HasPrefix(value, "#") {
		value = ""
	}
	return name, value, true
}

// readJSON reads an index in JSON, token by token but for the versions of the chart.
func readJSON(r io.Reader, chart string, into *collector) error {
	d := json.NewDecoder(bufio.NewReader(r))
	if found, err := enter(d, "entries"); err != nil || !found {
		return errUnusual
	}
	found, err := enter(d, chart)
	if err != nil || !found {
		return err
	}
	if versions, err := d.Token(); err != nil || versions != json.Delim('[') {
		return errUnusual
	}
	for d.More() {
		before := d.InputOffset()
		var version json.RawMessage
		if err := d.Decode(&version); err != nil {
			return errUnusual
		}
		if d.InputOffset()-before > mostOfVersion {
			return ErrTooMuch
		}
		if err := into.add(func(into any) error { return json.Unmarshal(version, into) }); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return errUnusual // the list has no end
	}
	return nil
}

// enter goes on to the value of a field of the object that comes next.
func enter(d *json.Decoder, field string) (found bool, err error) {
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return false, errUnusual
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false, errUnusual
		}
		if name == field {
			return true, nil
		}
		if err := skip(d); err != nil {
			return false, err
		}
	}
	return false, nil
}

// skip passes over a value, however deep, without keeping it.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return errUnusual
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
