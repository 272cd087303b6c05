package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

const (
	// maxLine is how much of a line is kept, and maxStack how much of a crash report.
	maxLine  = 64 << 10
	maxStack = 256 << 10
	// linesPerSecond are what one process may log in the long run; logBurst seconds' worth may come at once. A long line
	// counts as one for each lineBytes, which makes 1 MiB a second.
	linesPerSecond = 500
	lineBytes      = 2 << 10
	logBurst       = 5
	// droppedEvery is the time between two records about dropped lines.
	droppedEvery = 5 * time.Second
	// reportTime is how long a crash report may take: a program that only prints what looks like one goes on to log.
	reportTime = 10 * time.Second
	// tailLines is how many lines are kept as last words, tailBytes bounds each, and reportTail are the lines of a crash
	// report of Go's among them: of a thousand goroutines only the beginning says what happened.
	tailLines  = 20
	tailBytes  = 800
	reportTail = 12

	streamKey = "stream"
	stackKey  = "stack"
)

// processLog turns what one process writes into records of the host's log. A line of slog's or hclog's JSON keeps its
// level, message and attributes; any other line is the message of a record. The report of a crash becomes one record
// with the attribute "stack". A key that is the host's gets the prefix "plugin_", so that nothing of the plugin can
// pass for what the host says.
//
// go-plugin's own reader of standard error is not used: it panics on a line such as {"@message":1}.
type processLog struct {
	log   *slog.Logger
	clock clock.PassiveClock
	pace  *rate.Limiter

	dropped atomic.Uint64 // is read while the host's log may hold a write up

	mu       sync.Mutex // guards what follows, and the state of each stream
	reported uint64     // how many of the dropped lines the log has told of
	told     time.Time  // when it has
	tail     []tailLine
}

// tailLine is a line of the last words as the process wrote it.
type tailLine struct {
	text []byte
	at   time.Time
}

func newProcessLog(log *slog.Logger, now clock.PassiveClock) *processLog {
	return &processLog{log: log, clock: now, pace: rate.NewLimiter(linesPerSecond, logBurst*linesPerSecond)}
}

// writer returns a writer for one stream, such as "stderr". Write never fails. Close logs what is there of a line or a
// crash report.
func (l *processLog) writer(stream string) *logWriter {
	return &logWriter{log: l, handler: l.log.With(streamKey, stream).Handler()}
}

// lastWords are the last lines of the process that are not older than age, as plain text.
func (l *processLog) lastWords(age time.Duration) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	for _, line := range l.tail {
		if l.clock.Since(line.at) <= age {
			text := plainText(line.text)
			words = append(words, strings.ToValidUTF8(text[:min(len(text), tailBytes)], ""))
		}
	}
	return words
}

// remember adds a line to the last words, although it may be dropped from the log.
func (l *processLog) remember(text []byte, now time.Time) {
	if len(l.tail) == tailLines {
		l.tail = slices.Delete(l.tail, 0, 1)
	}
	l.tail = append(l.tail, tailLine{text: bytes.Clone(text[:min(len(text), 10*tailBytes)]), at: now})
}

// admit reports whether a line is logged, and counts it if not.
func (l *processLog) admit(size int, now time.Time) bool {
	admitted := l.pace.AllowN(now, 1+size/lineBytes)
	if !admitted {
		l.dropped.Add(1)
	}
	if now.Sub(l.told) >= droppedEvery {
		l.reportDropped(now)
	}
	return admitted
}

// reportDropped logs how many lines were dropped since the log has last said so.
func (l *processLog) reportDropped(now time.Time) {
	if dropped := l.dropped.Load(); dropped > l.reported {
		l.log.Warn("plugin logs too much; lines were dropped", "lines", dropped-l.reported)
		l.reported, l.told = dropped, now
	}
}

// logWriter is one stream of a process.
type logWriter struct {
	log     *processLog
	handler slog.Handler
	first   func(line string) // takes the first line, which is not logged; nil for none
	line    []byte            // what is there of a line, at most maxLine
	cut     bool              // the line is longer
	report  *crashReport
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for rest := p; len(rest) > 0; {
		part, after, complete := bytes.Cut(rest, []byte{'\n'})
		room := maxLine - len(w.line)
		w.line, w.cut = append(w.line, part[:min(len(part), room)]...), w.cut || len(part) > room
		if complete || w.first != nil && len(w.line) >= maxHandshake { // so long a line is no handshake
			w.endLine(w.log.clock.Now())
		}
		rest = after
	}
	return len(p), nil
}

// Close may be called again. Nothing is written afterwards.
func (w *logWriter) Close() error {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	now := w.log.clock.Now()
	if len(w.line) > 0 || w.first != nil {
		w.endLine(now)
	}
	w.endReport()
	w.log.reportDropped(now)
	return nil
}

// endLine logs a line, or adds it to the crash report that it belongs to.
func (w *logWriter) endLine(now time.Time) {
	text, cut := bytes.TrimRight(w.line, "\r"), w.cut
	w.line, w.cut = w.line[:0], false
	if w.first != nil {
		w.first(strings.TrimSpace(string(text)))
		w.first = nil
		return
	}
	if w.report != nil && now.Sub(w.report.began) >= reportTime {
		w.endReport()
	}
	mayBeRecord := !cut && bytes.HasPrefix(text, []byte{'{'})
	if w.report != nil && !mayBeRecord { // other threads go on to log while one writes a report
		w.addToReport(text, now)
		return
	}
	if len(text) == 0 {
		return
	}
	w.log.remember(text, now)
	if python := string(text) == traceback; python || goCrash.Match(text) {
		w.report = &crashReport{began: now, python: python, message: bytes.Clone(text)}
		return
	}
	if w.log.admit(len(text), now) {
		handle(w.handler, recordOf(text, mayBeRecord, cut, now))
	}
}

func (w *logWriter) addToReport(text []byte, now time.Time) {
	if w.report.lines++; w.report.python || w.report.lines < reportTail {
		w.log.remember(text, now)
	}
	if !w.report.add(text) {
		return
	}
	if !w.log.admit(len(w.report.stack), now) { // the process goes on, and may have many
		w.report = nil
	}
	w.endReport()
}

// endReport logs the crash report if there is one. One that ends with its process, or lasts for reportTime, is logged
// however much was logged before: there are few, and they matter most.
func (w *logWriter) endReport() {
	if w.report != nil {
		handle(w.handler, w.report.record())
		w.report = nil
	}
}

func handle(h slog.Handler, r slog.Record) {
	if h.Enabled(context.Background(), r.Level) {
		_ = h.Handle(context.Background(), r) // there is nowhere left to report that logging fails
	}
}

// crashReport is what spans several lines and is one record of level error. One of Go's ends with the process, and its
// first line says what happened. One of Python's ends with the first line that is not indented, which says it.
type crashReport struct {
	began   time.Time
	python  bool
	message []byte
	stack   []byte // at most maxStack
	lines   int    // of it
}

// goCrash matches the first line of what Go's runtime, or Python's, writes before it ends the process.
var goCrash = regexp.MustCompile(`^(panic: |fatal error: |unexpected fault address |` +
	`runtime: (out of memory|goroutine stack exceeds )|SIG[A-Z]+: (abort|bus error|floating-point exception|` +
	`illegal instruction|quit|segmentation violation|bad system call|trace trap)|` +
	`Fatal Python error: |goroutine .*\]:$)`)

const traceback = "Traceback (most recent call last):"

// add adds a line and reports whether it was the last one.
func (r *crashReport) add(text []byte) (last bool) {
	if r.python && len(text) > 0 && text[0] != ' ' && text[0] != '\t' {
		r.stack = append(append(r.message, '\n'), r.stack...)
		r.message = bytes.Clone(text)
		return true
	}
	r.stack = append(append(r.stack, text[:min(len(text), maxStack-len(r.stack))]...), '\n')
	r.stack = r.stack[:min(len(r.stack), maxStack)]
	return false
}

func (r *crashReport) record() slog.Record {
	record := slog.NewRecord(r.began, slog.LevelError, clean(r.message), 0)
	stack := clean(bytes.Trim(r.stack, "\n"))
	if len(r.stack) >= maxStack {
		stack += "\n… (cut)"
	}
	if stack != "" {
		record.AddAttrs(slog.String(stackKey, stack))
	}
	return record
}

// recordOf makes a record of a line.
func recordOf(text []byte, mayBeRecord, cut bool, now time.Time) slog.Record {
	if mayBeRecord {
		if record, err := parseRecord(text, now); err == nil {
			return record
		}
	}
	record := slog.NewRecord(now, slog.LevelInfo, clean(text), 0)
	if cut {
		record.AddAttrs(slog.Bool("truncated", true))
	}
	return record
}

// recordKeys are the keys of slog and hclog that are no attributes, by slog's names.
var recordKeys = map[string]string{
	slog.TimeKey: slog.TimeKey, "@timestamp": slog.TimeKey, slog.LevelKey: slog.LevelKey, "@level": slog.LevelKey,
	slog.MessageKey: slog.MessageKey, "@message": slog.MessageKey,
}

var errNoRecord = errors.New("no log record")

// parseRecord reads a line as slog and hclog write it, member by member: there may be several of one name, of which the
// first counts as level or message. The time is that of the host.
func parseRecord(text []byte, now time.Time) (slog.Record, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return slog.Record{}, errNoRecord
	}
	own := map[string]string{}
	var attrs []slog.Attr
	for decoder.More() {
		var value json.RawMessage
		token, err := decoder.Token()
		if err == nil {
			err = decoder.Decode(&value)
		}
		key, isKey := token.(string)
		if err != nil || !isKey {
			return slog.Record{}, errNoRecord
		}
		name, isText := recordKeys[key], bytes.HasPrefix(value, []byte{'"'})
		_, taken := own[name]
		switch {
		case name == slog.TimeKey:
		case name != "" && isText && !taken:
			own[name] = textOf(value)
		case isText:
			attrs = append(attrs, slog.String(attributeKey(key), textOf(value)))
		default:
			attrs = append(attrs, slog.Any(attributeKey(key), jsonValue(clean(value))))
		}
	}
	_, closing := decoder.Token()
	_, rest := decoder.Token()
	level, hasLevel := own[slog.LevelKey]
	message, hasMessage := own[slog.MessageKey]
	if closing != nil || !errors.Is(rest, io.EOF) || !hasLevel || !hasMessage {
		return slog.Record{}, errNoRecord
	}
	record := slog.NewRecord(now, parseLevel(level), message, 0)
	record.AddAttrs(attrs...)
	return record, nil
}

// jsonValue is a JSON value that is no string. Its kind keeps the text format from quoting numbers, as it does bytes.
type jsonValue string

// MarshalJSON returns the value as it is.
func (v jsonValue) MarshalJSON() ([]byte, error) { return []byte(v), nil }

// textOf is the text that a JSON string holds.
func textOf(value json.RawMessage) string {
	var text string
	_ = json.Unmarshal(value, &text) // the decoder has found it to be a string
	return clean(text)
}

// attributeKey keeps the host's own keys the host's, whatever their case: not all who read logs tell "Level" from
// "level".
func attributeKey(key string) string {
	switch strings.ToLower(key) {
	case slog.TimeKey, slog.LevelKey, slog.MessageKey, streamKey, "plugin":
		return "plugin_" + key
	default:
		return clean(key)
	}
}

// parseLevel knows the levels of slog, hclog and Python. An unknown one is info.
func parseLevel(text string) slog.Level {
	switch strings.ToLower(text) {
	case "trace":
		return slog.LevelDebug - 4
	case "warning":
		return slog.LevelWarn
	case "fatal", "critical", "panic":
		return slog.LevelError
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return slog.LevelInfo
	}
	return level
}

// clean makes text fit for a log: valid UTF-8, a U+FFFD for each bad byte. slog's handlers escape the characters below
// U+0020, but JSON's lets others pass that move the cursor of a terminal or turn the direction of a line around.
func clean[T ~string | ~[]byte](text T) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, string(text))
}

// escapeSequence is what colours the text on a terminal, or moves its cursor.
var escapeSequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// plainText is a line as people read it: of a record its message and attributes.
func plainText(line []byte) string {
	text := string(line)
	if record, err := parseRecord(line, time.Time{}); err == nil {
		text = record.Message
		record.Attrs(func(a slog.Attr) bool {
			text += fmt.Sprintf(" %s=%s", a.Key, a.Value.Any())
			return true
		})
	}
	text = strings.ReplaceAll(escapeSequence.ReplaceAllString(text, ""), "\t", "    ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, clean(text))
}
