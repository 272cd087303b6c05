package worker

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

const (
	// maxLine is how much of a line of a worker is looked at, and maxLines how many lines of one are logged.
	maxLine  = 512
	maxLines = 300
	// maxStderr is how much a worker may write during a request. What is over it ends the worker, whose pipe is closed
	// then.
	maxStderr = 4 << 20
)

// stderr logs what a worker writes to its standard error, and finds out what it has died of.
type stderr struct {
	mu  sync.Mutex // guards all of it
	log *slog.Logger

	line    []byte // the beginning of the one that is not complete
	cut     bool   // more of it has come
	hiding  bool   // the lines of a panic's message, which may hold values
	written int64
	lines   int

	death death
}

// memoryDump is a line of what Go's runtime shows of the memory around a stack when C code crashes.
var memoryDump = regexp.MustCompile(`^[0-9a-f]{16}: `)

// death is what the runtime of a worker says of its end.
type death int

const (
	deathUnknown death = iota
	deathPanic
	deathFatal
	deathStack
	deathMemory
)

// begin is called before each request, with the log for what is written from now on.
func (s *stderr) begin(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log, s.written, s.lines = log, 0, 0
}

func (s *stderr) logger() *slog.Logger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// diagnosis is what the process has died of, as far as it was written.
func (s *stderr) diagnosis() death {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.death
}

// Write takes what it gets, unless there was too much.
func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written += int64(len(p))
	if s.written > maxStderr {
		return 0, errTooMuch
	}
	for rest := p; len(rest) > 0; {
		part, after, ended := bytes.Cut(rest, []byte("\n"))
		s.collect(part)
		if ended {
			s.endLine()
		}
		rest = after
	}
	return len(p), nil
}

// flush takes the last line. The process has ended.
func (s *stderr) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.line) > 0 {
		s.endLine()
	}
}

func (s *stderr) collect(part []byte) {
	room := maxLine - len(s.line)
	s.cut = s.cut || len(part) > room
	s.line = append(s.line, part[:min(len(part), room)]...)
}

func (s *stderr) endLine() {
	text := clean(string(s.line))
	if s.cut {
		text += "…"
	}
	s.line, s.cut = s.line[:0], false
	s.diagnose(text)
	if strings.HasPrefix(text, "goroutine ") || strings.HasPrefix(text, "[signal ") {
		s.hiding = false
	}
	if strings.HasPrefix(text, "panic: ") {
		s.hiding = true
		if strings.HasPrefix(text, "panic: runtime error: ") { // with types and numbers only
			s.write(text)
			return
		}
		text = "panic: (its message is not shown, for it may hold values)"
	} else if s.hiding {
		return
	}
	s.write(text)
}

func (s *stderr) write(text string) {
	if text == "" || memoryDump.MatchString(text) {
		return
	}
	switch s.lines++; {
	case s.lines <= maxLines:
		s.log.Debug("a worker writes", "line", text)
	case s.lines == maxLines+1:
		s.log.Debug("a worker has written more than is logged")
	}
}

// diagnose looks for what Go's runtime says before it ends the process. The most exact sign counts.
func (s *stderr) diagnose(line string) {
	found := deathUnknown
	fatal, isFatal := strings.CutPrefix(line, "fatal error: ")
	switch {
	case strings.HasPrefix(line, "runtime: goroutine stack exceeds "), isFatal && strings.HasPrefix(fatal, "stack overflow"):
		found = deathStack
	case strings.HasPrefix(line, "runtime: out of memory"),
		isFatal && (strings.Contains(fatal, "out of memory") || strings.Contains(fatal, "cannot allocate")):
		found = deathMemory
	case isFatal:
		found = deathFatal
	case strings.HasPrefix(line, "panic: "):
		found = deathPanic
	}
	s.death = max(s.death, found)
}

// clean replaces what is no text, or could redraw a line.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}
