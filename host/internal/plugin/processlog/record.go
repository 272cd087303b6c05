package processlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// recordOf returns the record of a line. A line that was cut is no JSON.
func recordOf(text []byte, cut bool, now time.Time) slog.Record {
	if !cut && isObject(text) {
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

// recordKeys are the keys of slog and hclog with a meaning of their own, by slog's names.
var recordKeys = map[string]string{
	slog.TimeKey: slog.TimeKey, "@timestamp": slog.TimeKey, slog.LevelKey: slog.LevelKey, "@level": slog.LevelKey,
	slog.MessageKey: slog.MessageKey, "@message": slog.MessageKey,
}

var errNoRecord = errors.New("no log record")

// isObject reports whether a line may be a JSON record.
func isObject(text []byte) bool { return bytes.HasPrefix(text, []byte{'{'}) }

// parseRecord reads a line of slog or hclog. The time is that of the host.
func parseRecord(text []byte, now time.Time) (slog.Record, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return slog.Record{}, errNoRecord
	}
	own, keys := map[string]string{}, map[string]bool{}
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
		attribute := attributeKey(key)
		if keys[attribute] { // a record of the host has no key twice
			attribute = "plugin_" + attribute
		}
		// Keys may repeat; the first level and the first message count.
		_, taken := own[name]
		switch {
		case name == slog.TimeKey, keys[attribute]: // the first and the second value are enough
		case name != "" && isText && !taken:
			own[name] = textOf(value)
		case isText:
			attrs, keys[attribute] = append(attrs, slog.String(attribute, textOf(value))), true
		default:
			attrs, keys[attribute] = append(attrs, slog.Any(attribute, jsonValue(clean(value)))), true
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

// jsonValue is a JSON value other than a string. slog's text format would quote a number in plain bytes.
type jsonValue string

// MarshalJSON returns the value unchanged.
func (v jsonValue) MarshalJSON() ([]byte, error) { return []byte(v), nil }

func textOf(value json.RawMessage) string {
	var text string
	_ = json.Unmarshal(value, &text) // the decoder has found it to be a string
	return clean(text)
}

// attributeKey renames the keys of the host's own attributes.
func attributeKey(key string) string {
	switch strings.ToLower(key) { // some readers of logs ignore case
	case slog.TimeKey, slog.LevelKey, slog.MessageKey, streamKey, "plugin":
		return "plugin_" + key
	default:
		return clean(key)
	}
}

// parseLevel reads the levels of slog, hclog and Python. An unknown level is info.
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

// clean returns valid UTF-8 without control characters above U+007E and without marks of text direction.
func clean[T ~string | ~[]byte](text T) string {
	return strings.Map(func(r rune) rune {
		// slog's handlers escape the characters below U+0020. JSON lets these pass, and they move a terminal's cursor.
		if r >= 0x7f && r < 0xa0 || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, string(text))
}
