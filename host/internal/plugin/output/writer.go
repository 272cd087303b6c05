package output

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxLine is how much of a line is kept.
	maxLine = 64 << 10

	streamKey    = "stream"
	truncatedKey = "truncated"
)

// line is a line without its end.
type line struct {
	text []byte // its first maxLine bytes
	size int    // its whole length
}

func (l line) cut() bool { return l.size > maxLine }

// mayBeRecord tells whether it is worth the while to parse the line.
func (l line) mayBeRecord() bool { return !l.cut() && len(l.text) > 0 && l.text[0] == '{' }

// writer is one stream of a Log.
type writer struct {
	out     *Log
	handler slog.Handler

	// Guarded by Log.mu.
	pending []byte // the beginning of a line, at most maxLine
	size    int    // how long that line is so far
	report  *report
}

var _ io.WriteCloser = (*writer)(nil)

func (w *writer) Write(p []byte) (int, error) {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	now := w.out.clock.Now()
	for rest := p; len(rest) > 0; {
		part, after, complete := bytes.Cut(rest, []byte{'\n'})
		switch {
		case !complete:
			w.keep(part)
		case w.size == 0: // no need to copy it
			w.line(now, part, len(part))
		default:
			w.keep(part)
			w.flush(now)
		}
		rest = after
	}
	return len(p), nil
}

func (w *writer) Close() error {
	w.out.mu.Lock()
	defer w.out.mu.Unlock()
	now := w.out.clock.Now()
	if w.size > 0 {
		w.flush(now)
	}
	w.endReport(now, true)
	w.out.sayDropped(now)
	w.pending = nil
	return nil
}

func (w *writer) keep(part []byte) {
	w.pending = append(w.pending, part[:min(len(part), maxLine-len(w.pending))]...)
	w.size += len(part)
}

// flush takes what is there for a whole line.
func (w *writer) flush(now time.Time) {
	text, size := w.pending, w.size
	w.pending, w.size = w.pending[:0], 0
	w.line(now, text, size)
}

func (w *writer) line(now time.Time, text []byte, size int) {
	l := line{text: bytes.TrimRight(text[:min(len(text), maxLine)], "\r"), size: size}
	if w.report != nil && w.report.overdue(now) {
		w.endReport(now, true)
	}
	// Other threads go on logging while one writes a report: their records go past it.
	if w.report != nil && !l.mayBeRecord() {
		if w.report.add(l) {
			w.endReport(now, false)
		}
		return
	}
	if kind := reportKindOf(l.text); kind != nil {
		w.report = newReport(kind, now, l)
		return
	}
	if len(l.text) == 0 || string(l.text) == raceRule {
		return // it says nothing
	}
	w.out.tail.add(now, l.text)
	if w.out.admit(now, l) {
		handle(w.handler, w.record(now, l))
	}
}

func (w *writer) record(now time.Time, l line) slog.Record {
	if l.mayBeRecord() {
		if r, err := parseRecord(l.text, now, w.out.reserved); err == nil {
			return r
		}
	}
	r := slog.NewRecord(now, slog.LevelInfo, clean(l.text), 0)
	if l.cut() {
		r.AddAttrs(slog.Bool(truncatedKey, true))
	}
	return r
}

// endReport logs the report if there is one. No budget silences what may be the last words of a program, of which there are few.
func (w *writer) endReport(now time.Time, lastWords bool) {
	r := w.report
	if r == nil {
		return
	}
	w.report = nil
	for _, text := range r.gist() {
		w.out.tail.add(now, text)
	}
	if lastWords || w.out.admitReport(now, r) {
		handle(w.handler, r.record())
	}
}

// clean makes text fit for a log: valid UTF-8, a U+FFFD for each bad byte. slog's handlers escape the characters below U+0020, but
// JSON's lets others pass that move the cursor of a terminal or turn the direction of a line around.
func clean[T string | []byte](text T) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, string(text))
}
