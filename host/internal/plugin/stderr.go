package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// maxLine is how much of one line of a plugin's log is kept.
const maxLine = 64 << 10

// logWriter turns what a plugin writes to its standard error into records of the host's log: lines of slog's or hclog's JSON
// keep their level, message and fields, anything else becomes the message of a record. It never fails and keeps at most one
// line in memory, whatever a plugin writes.
type logWriter struct {
	log *slog.Logger

	mu      sync.Mutex
	line    []byte
	cut     bool // the line was longer than maxLine
	inPanic bool // a Go runtime's panic message has begun; it goes on to the end of the process
}

var _ io.WriteCloser = (*logWriter)(nil)

func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for rest := p; len(rest) > 0; {
		part, after, complete := bytes.Cut(rest, []byte{'\n'})
		w.append(part)
		if complete {
			w.flush()
		}
		rest = after
	}
	return len(p), nil
}

// Close logs what was written last if it is not a whole line: a program that dies leaves its most important words there. More
// may be written afterwards.
func (w *logWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	return nil
}

func (w *logWriter) append(part []byte) {
	if room := maxLine - len(w.line); len(part) > room {
		part, w.cut = part[:room], true
	}
	w.line = append(w.line, part...)
}

func (w *logWriter) flush() {
	line, cut := bytes.TrimRight(w.line, "\r"), w.cut
	w.line, w.cut = w.line[:0], false
	if len(line) == 0 {
		return
	}
	if !cut && line[0] == '{' {
		if r, err := parseRecord(line); err == nil {
			if h := w.log.Handler(); h.Enabled(context.Background(), r.Level) {
				_ = h.Handle(context.Background(), r) // there is nowhere left to report that logging fails
			}
			return
		}
	}
	w.logText(strings.ToValidUTF8(string(line), "\uFFFD"), cut)
}

func (w *logWriter) logText(line string, cut bool) {
	w.inPanic = w.inPanic || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	log := w.log
	if cut {
		log = log.With("truncated", true)
	}
	if w.inPanic {
		log.Error(line)
		return
	}
	log.Info(line)
}

// errNoRecord: a line of JSON is no log record.
var errNoRecord = errors.New("no log record")

// parseRecord reads a line as slog and hclog write it. The first value of time, level and message counts, so that an attribute
// of the same name stays what it is.
func parseRecord(line []byte) (slog.Record, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if _, err := decoder.Token(); err != nil { // the opening brace
		return slog.Record{}, err
	}
	var (
		at      = time.Now()
		level   slog.Level
		message string
		seen    = map[string]bool{}
		attrs   []slog.Attr
	)
	for decoder.More() {
		key, value, err := field(decoder)
		if err != nil {
			return slog.Record{}, err
		}
		text, isText := value.(string)
		switch role := strings.TrimPrefix(key, "@"); {
		case (role == "time" || role == "timestamp") && isText && !seen["time"]:
			if parsed, err := time.Parse(time.RFC3339Nano, text); err == nil {
				at = parsed
			}
			seen["time"] = true
		case role == "level" && isText && !seen["level"]:
			level, seen["level"] = parseLevel(text), true
		case (role == "msg" || role == "message") && isText && !seen["message"]:
			message, seen["message"] = text, true
		default:
			attrs = append(attrs, slog.Any(key, value))
		}
	}
	if err := end(decoder); err != nil {
		return slog.Record{}, err
	}
	if !seen["level"] || !seen["message"] {
		return slog.Record{}, errNoRecord
	}
	record := slog.NewRecord(at, level, message, 0)
	record.AddAttrs(attrs...)
	return record, nil
}

func field(decoder *json.Decoder) (key string, value any, err error) {
	token, err := decoder.Token()
	if err != nil {
		return "", nil, err
	}
	key, ok := token.(string)
	if !ok {
		return "", nil, errNoRecord
	}
	err = decoder.Decode(&value)
	return key, value, err
}

// end makes sure that the object is complete and that nothing follows it, which would get lost otherwise.
func end(decoder *json.Decoder) error {
	if _, err := decoder.Token(); err != nil { // the closing brace
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errNoRecord
	}
	return nil
}

func parseLevel(text string) slog.Level {
	if strings.EqualFold(text, "trace") {
		return slog.LevelDebug - 4
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return slog.LevelInfo
	}
	return level
}
