// Package processlog turns the output of a plugin's process into records of the host's log.
//
// A JSON line of slog or hclog keeps its level, message and attributes; any other line is the message of a record at
// level info. The report of a crash of Go is one record at level error, with the attribute "stack". A key of the host's
// own, and a repeated one, gets the prefix "plugin_". Lines above a rate are dropped and counted. The last lines are
// kept as last words.
package processlog

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

const (
	// maxLine bounds a line; the rest of a longer one is dropped.
	maxLine = 64 << 10
	// linesPerSecond is the rate of one process, and logBurst the seconds of it which may come at once. A long line
	// counts as one for each lineBytes, hence 1 MiB a second.
	linesPerSecond = 500
	lineBytes      = 2 << 10
	logBurst       = 5
	// droppedEvery is the time between two records about dropped lines.
	droppedEvery = 5 * time.Second

	streamKey = "stream"
)

// Log takes the output of one process.
//
// go-plugin's own reader of standard error is not used: it panics on a line such as {"@message":1}.
type Log struct {
	log     *slog.Logger
	clock   clock.PassiveClock
	pace    *rate.Limiter
	dropped atomic.Uint64 // read while the host's log may block a write

	mu         sync.Mutex // guards the fields below, and the state of each Writer
	reported   uint64     // of the dropped lines
	reportedAt time.Time
	last       lastLines
}

// New returns a Log for a new process.
func New(log *slog.Logger, now clock.PassiveClock) *Log {
	return &Log{log: log, clock: now, pace: rate.NewLimiter(linesPerSecond, logBurst*linesPerSecond)}
}

// Writer returns a writer for one stream, such as "stderr". Concurrent streams need a writer each.
func (l *Log) Writer(stream string) *Writer {
	return &Writer{log: l, handler: l.log.With(streamKey, stream).Handler()}
}

// LastWords returns the last lines of the process up to an age, as plain text.
func (l *Log) LastWords(age time.Duration) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.since(l.clock.Now().Add(-age))
}

// Dropped counts the lines above the rate.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// admit reports whether the rate allows a line, and counts it if not.
func (l *Log) admit(size int, now time.Time) bool {
	admitted := l.pace.AllowN(now, 1+size/lineBytes)
	if !admitted {
		l.dropped.Add(1)
	}
	if now.Sub(l.reportedAt) >= droppedEvery {
		l.reportDropped(now)
	}
	return admitted
}

// reportDropped logs the number of lines dropped since the last report.
func (l *Log) reportDropped(now time.Time) {
	if dropped := l.dropped.Load(); dropped > l.reported {
		l.log.Warn("plugin logs too much; lines were dropped", "lines", dropped-l.reported)
		l.reported, l.reportedAt = dropped, now
	}
}

// Writer is one stream of a process.
type Writer struct {
	log     *Log
	handler slog.Handler
	line    []byte // the beginning of an unfinished line, at most maxLine
	cut     bool   // the line is longer
	crash   *crash // nil outside of a crash report
}

// Write never fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for rest := p; len(rest) > 0; {
		part, after, complete := bytes.Cut(rest, []byte{'\n'})
		room := maxLine - len(w.line)
		w.line, w.cut = append(w.line, part[:min(len(part), room)]...), w.cut || len(part) > room
		if complete {
			w.endLine(w.log.clock.Now())
		}
		rest = after
	}
	return len(p), nil
}

// Close logs an unfinished line or crash report. It never fails, and may be repeated.
func (w *Writer) Close() error {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	now := w.log.clock.Now()
	if len(w.line) > 0 {
		w.endLine(now)
	}
	w.endCrash()
	w.log.reportDropped(now)
	return nil
}

// endLine logs the line, or adds it to the crash report.
func (w *Writer) endLine(now time.Time) {
	text, cut := bytes.TrimRight(w.line, "\r"), w.cut
	w.line, w.cut = w.line[:0], false
	if w.crash != nil && now.Sub(w.crash.began) >= crashTime {
		w.endCrash()
	}
	switch {
	case w.crash != nil && (cut || !isObject(text)): // other threads log JSON meanwhile
		if w.crash.add(text); w.crash.lines <= maxCrashLines {
			w.log.last.add(text, now)
		}
	case len(text) == 0:
	case crashStart.Match(text):
		w.log.last.add(text, now)
		w.crash = newCrash(text, now)
	default:
		w.log.last.add(text, now)
		if w.log.admit(len(text), now) {
			w.handle(recordOf(text, cut, now))
		}
	}
}

// endCrash logs the crash report, if there is one.
func (w *Writer) endCrash() {
	if w.crash != nil {
		w.handle(w.crash.record()) // whatever the rate: reports are few, and name the cause
		w.crash = nil
	}
}

func (w *Writer) handle(r slog.Record) {
	ctx := context.Background()
	if w.handler.Enabled(ctx, r.Level) {
		_ = w.handler.Handle(ctx, r) // an error of the log cannot be logged
	}
}
