package output

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// maxStack is how much of a crash report is kept: some hundred goroutines.
	maxStack = 256 << 10
	// reportTime is how long a report may take. A program that dies is faster, and one that only prints what looks like
	// a report must not have its later lines taken for it.
	reportTime = 10 * time.Second
	// gistLines is how many lines of a report tell what happened: in Go, the panic and some frames of the goroutine.
	gistLines = 12

	// raceRule is the line above and below a report of Go's race detector.
	raceRule = "=================="
	stackKey = "stack"
)

// reportKind is a kind of crash report: what spans several lines and is one record of level error.
type reportKind struct {
	begins func(text []byte) bool
	// ends tells whether a line is the last one. Nil if only the end of the stream is the end of the report.
	ends func(text []byte) bool
	// lastTells: the last line says what happened, not the first; the frames before it are the innermost.
	lastTells bool
}

var reportKinds = []*reportKind{
	{begins: areLastWords},
	{
		begins: func(text []byte) bool { return string(text) == "WARNING: DATA RACE" },
		ends:   func(text []byte) bool { return string(text) == raceRule },
	},
	{ // Python
		begins:    func(text []byte) bool { return string(text) == "Traceback (most recent call last):" },
		ends:      func(text []byte) bool { return len(text) > 0 && text[0] != ' ' && text[0] != '\t' },
		lastTells: true,
	},
}

// lastWords is how the last words of Go's runtime begin, and those of Python's.
var lastWords = [][]byte{
	[]byte("panic: "), []byte("fatal error: "), []byte("unexpected fault address "),
	[]byte("runtime: out of memory"), []byte("runtime: goroutine stack exceeds "),
	[]byte("SIGABRT: abort"), []byte("SIGBUS: bus error"), []byte("SIGFPE: floating-point exception"),
	[]byte("SIGILL: illegal instruction"), []byte("SIGQUIT: quit"), []byte("SIGSEGV: segmentation violation"),
	[]byte("SIGSYS: bad system call"), []byte("SIGTRAP: trace trap"),
	[]byte("Fatal Python error: "),
}

func areLastWords(text []byte) bool {
	return slices.ContainsFunc(lastWords, func(words []byte) bool { return bytes.HasPrefix(text, words) }) ||
		bytes.HasPrefix(text, []byte("goroutine ")) && bytes.HasSuffix(text, []byte("]:"))
}

// reportKindOf returns the kind of report that begins with a line, or nil.
func reportKindOf(text []byte) *reportKind {
	for _, kind := range reportKinds {
		if kind.begins(text) {
			return kind
		}
	}
	return nil
}

// report is a crash report under way.
type report struct {
	kind    *reportKind
	began   time.Time
	message []byte
	stack   []byte // at most maxStack
	lines   int
	size    int // of the lines, the message and what was not kept among them
	left    int // how much of the stack was not kept
	// lastTold: the message is the last line, and the first one is in the stack.
	lastTold bool
}

func newReport(kind *reportKind, began time.Time, first line) *report {
	return &report{kind: kind, began: began, message: bytes.Clone(first.text), lines: 1, size: first.size}
}

func (r *report) overdue(now time.Time) bool { return now.Sub(r.began) >= reportTime }

// add adds a line and tells whether it was the last one.
func (r *report) add(l line) (last bool) {
	r.lines++
	r.size += l.size
	last = r.kind.ends != nil && r.kind.ends(l.text)
	switch {
	case last && r.kind.lastTells:
		first := r.message
		r.message, r.lastTold = bytes.Clone(l.text), true
		r.stack = append(append(first, '\n'), r.stack...)
	case last: // a rule, which says nothing
	case r.left > 0 || len(r.stack)+len(l.text)+1 > maxStack:
		r.left += l.size + 1
	default:
		r.stack = append(append(r.stack, l.text...), '\n')
	}
	return last
}

func (r *report) record() slog.Record {
	record := slog.NewRecord(r.began, slog.LevelError, clean(r.message), 0)
	stack := clean(bytes.Trim(r.stack, "\n"))
	if r.left > 0 {
		stack += fmt.Sprintf("\n... %d more bytes were left out", r.left)
	}
	if stack != "" {
		record.AddAttrs(slog.String(stackKey, stack))
	}
	return record
}

// gist returns the lines that tell an operator what happened, in the order in which they were written.
func (r *report) gist() [][]byte {
	lines := bytes.FieldsFunc(r.stack, func(c rune) bool { return c == '\n' })
	if r.lastTold {
		lines = append(lines, r.message)
	} else {
		lines = append([][]byte{r.message}, lines...)
	}
	if r.kind.lastTells {
		return lines[max(len(lines)-gistLines, 0):]
	}
	return lines[:min(len(lines), gistLines)]
}
