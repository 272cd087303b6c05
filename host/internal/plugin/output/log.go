// Package output turns what a plugin's process writes, to its standard error and astray, into records of the host's log.
//
// A line of slog's or hclog's JSON keeps its level, message, time and attributes; any other line is the message of a record. The
// report of a crash, which spans many lines, becomes one record. A plugin may write what it likes: memory is bounded, nothing that
// it writes can pass for what the host says, and a flood is dropped before it costs much.
//
// # Whose words they are
//
// Each record has the attribute "stream", which tells a plugin's words from the host's words about the plugin. A key that the
// record has already, whether from the host or from an earlier attribute of the plugin, gets the prefix "plugin_", in whatever case
// it is written: a plugin's own "level" beside the record's is "plugin_level". A time that is more than a minute off is no time of
// the record, but the attribute "plugin_time". Invalid UTF-8 and what could redraw a terminal's line becomes U+FFFD.
//
// # What is dropped
//
// A plugin has a budget of lines and bytes, for all of its streams. Beyond it lines are dropped and counted, and the log says so
// a few seconds after the first of them, whether the plugin goes on to write or falls silent, and when a stream ends. A tenth of the budget is set aside for lines with the word "error" at their beginning, and as much for crash
// reports, so that a flood does not hide what went wrong. The report that a stream ends with is always logged.
package output

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	defaultLinesPerSecond = 500
	defaultBytesPerSecond = 1 << 20
	// burst is for how many seconds' worth of budget a plugin may save up.
	burst = 5
	// reserve is the share of the budget that is set aside for errors, and again for crash reports.
	reserve = 0.1

	// dropsEvery is the time between two records about dropped lines while a flood goes on.
	dropsEvery = 5 * time.Second
)

// Options are the settings of a Log.
type Options struct {
	// Log takes the records. Required.
	Log *slog.Logger
	// Reserved are the keys of the attributes that Log adds to each record, so that a plugin cannot write them. Those of every
	// record (time, level, msg) need not be named. Defaults to "plugin".
	Reserved []string
	// LinesPerSecond and BytesPerSecond are the budget of all streams together. Five times as much may come at once. The defaults,
	// 500 and 1 MiB, are more than a plugin needs that logs each step of 64 jobs at level debug.
	LinesPerSecond, BytesPerSecond int
	// Clock defaults to the real one.
	Clock clock.WithDelayedExecution
}

// Log is what one process of a plugin says. Its streams share a budget. It is safe for concurrent use and needs no closing.
type Log struct {
	log      *slog.Logger
	clock    clock.WithDelayedExecution
	reserved keys

	droppedLines, droppedBytes atomic.Uint64

	mu                      sync.Mutex // guards what follows, and the state of each stream
	budget, errors, reports budget
	tail                    tail
	toldLines, toldBytes    uint64 // dropped, and the log has said so
	telling                 bool   // a timer is set that lets the log say so
}

// New returns a Log whose budget is full.
func New(o Options) *Log {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Reserved == nil {
		o.Reserved = []string{"plugin"}
	}
	if o.LinesPerSecond <= 0 {
		o.LinesPerSecond = defaultLinesPerSecond
	}
	if o.BytesPerSecond <= 0 {
		o.BytesPerSecond = defaultBytesPerSecond
	}
	l := &Log{log: o.Log, clock: o.Clock, reserved: keys{}}
	for _, key := range append([]string{slog.TimeKey, slog.LevelKey, slog.MessageKey, streamKey, omittedKey}, o.Reserved...) {
		l.reserved.add(key)
	}
	lines, bytes := float64(o.LinesPerSecond), float64(o.BytesPerSecond)
	l.budget = newBudget(lines, bytes)
	l.errors = newBudget(reserve*lines, reserve*bytes)
	l.reports = newBudget(reserve*lines, reserve*bytes)
	return l
}

// Writer returns a writer for one stream of the process, such as "stderr", which its records name. Each stream needs its own,
// lest half a line of one spoil a line of another. Write never fails, and blocks for nothing but the logger. Close logs
// what is there of a line or a crash report; more may be written afterwards, and Close may be called again.
//
// A crash report of Go's has no end but that of its process, so it is held back until Close or, should the process live on, until
// a line that comes ten seconds later.
func (l *Log) Writer(stream string) io.WriteCloser {
	return &writer{out: l, handler: l.log.With(streamKey, stream).Handler()}
}

// Dropped returns how many lines were dropped so far because there were too many, and how long they were together. It does not
// block.
func (l *Log) Dropped() (lines, bytes uint64) {
	return l.droppedLines.Load(), l.droppedBytes.Load()
}

// Tail returns what an operator wants to see of a process that has ended: its last lines, dropped or not, as plain text, at most 20
// lines and 16 KiB, and none that is older than age. Of a crash report of Go's it has the beginning, which says what happened and
// where, rather than the last of a thousand goroutines. Close the writers first: what they hold back is not in it.
func (l *Log) Tail(age time.Duration) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail.lines(l.clock.Now().Add(-age))
}

// admit decides whether a line is logged, and counts it if not.
func (l *Log) admit(now time.Time, line line) bool {
	admitted := l.budget.take(now, len(line.text)) ||
		!l.errors.exhausted(now) && mentionsError(line.text) && l.errors.take(now, len(line.text))
	if !admitted {
		l.drop(now, 1, line.size)
	}
	return admitted
}

// admitReport decides whether a crash report is logged, and counts its lines if not.
func (l *Log) admitReport(now time.Time, r *report) bool {
	admitted := l.budget.take(now, len(r.stack)) || l.reports.take(now, len(r.stack))
	if !admitted {
		l.drop(now, r.lines, r.size)
	}
	return admitted
}

// drop counts lines, and has the log say so in a while.
func (l *Log) drop(now time.Time, lines, bytes int) {
	l.droppedLines.Add(uint64(lines)) //nolint:gosec // a length
	l.droppedBytes.Add(uint64(bytes)) //nolint:gosec // a length
	if l.telling {
		return
	}
	l.telling = true
	l.clock.AfterFunc(dropsEvery, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.telling = false
		l.sayDropped(now.Add(dropsEvery))
	})
}

// sayDropped logs how much was dropped since the log has last said so.
func (l *Log) sayDropped(now time.Time) {
	allLines, allBytes := l.Dropped()
	lines, bytes := allLines-l.toldLines, allBytes-l.toldBytes
	if lines == 0 {
		return
	}
	l.toldLines, l.toldBytes = allLines, allBytes
	r := slog.NewRecord(now, slog.LevelWarn, "plugin logs too much; lines were dropped", 0)
	r.AddAttrs(slog.Uint64("lines", lines), slog.Uint64("bytes", bytes))
	handle(l.log.Handler(), r)
}

func handle(h slog.Handler, r slog.Record) {
	if h.Enabled(context.Background(), r.Level) {
		_ = h.Handle(context.Background(), r) // there is nowhere left to report that logging fails
	}
}

// errorWords are those that make a line one about an error.
var errorWords = [][]byte{[]byte("error"), []byte("ERROR"), []byte("Error")}

// mentionsError tells whether a line may be about an error, without reading more than its beginning: there is the level of slog's
// and hclog's JSON, and the first word of most texts.
func mentionsError(text []byte) bool {
	const beginning = 256
	head := text[:min(len(text), beginning)]
	return slices.ContainsFunc(errorWords, func(word []byte) bool { return bytes.Contains(head, word) })
}
