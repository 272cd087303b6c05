package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"time"
)

const (
	// maxAttributes is how many attributes of a record are kept; maxDepth is how deep they may be nested.
	maxAttributes = 64
	maxDepth      = 16
	// maxSkew is how far a record's time may be from that of the host, which has the same clock.
	maxSkew = time.Minute

	// ownPrefix is what a plugin's key begins with if the key alone is taken.
	ownPrefix = "plugin_"
	// omittedKey is how many attributes were left out.
	omittedKey = "omittedAttributes"
)

// errNoRecord: a line of JSON is no log record.
var errNoRecord = errors.New("no log record")

// keys are those that a record has, in lower case: some who read logs do not tell "Level" from "level".
type keys map[string]struct{}

// add adds a key under a name that is free, and returns the name.
func (k keys) add(key string) string {
	lower := strings.ToLower(key)
	for _, taken := k[lower]; taken; _, taken = k[lower] {
		key, lower = ownPrefix+key, ownPrefix+lower
	}
	k[lower] = struct{}{}
	return key
}

// parsed is a record while it is read.
type parsed struct {
	time    time.Time
	level   slog.Level
	message string
	attrs   []slog.Attr
	omitted int

	keys                          keys
	hasTime, hasLevel, hasMessage bool
}

// parseRecord reads a line as slog and hclog write it. A record that tells no time is of now.
func parseRecord(text []byte, now time.Time, reserved keys) (slog.Record, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if _, err := decoder.Token(); err != nil { // the opening brace
		return slog.Record{}, err
	}
	p := parsed{time: now, keys: maps.Clone(reserved)}
	for decoder.More() {
		key, value, err := field(decoder)
		if err != nil {
			return slog.Record{}, err
		}
		if !p.isOwn(key, value, now) {
			p.attribute(key, value)
		}
	}
	if err := end(decoder); err != nil {
		return slog.Record{}, err
	}
	if !p.hasLevel || !p.hasMessage {
		return slog.Record{}, errNoRecord
	}
	record := slog.NewRecord(p.time, p.level, p.message, 0)
	record.AddAttrs(p.attrs...)
	if p.omitted > 0 {
		record.AddAttrs(slog.Int(omittedKey, p.omitted))
	}
	return record, nil
}

// isOwn takes a field that is no attribute: the first that is a level, a message or a time.
func (p *parsed) isOwn(key string, value any, now time.Time) bool {
	text, ok := value.(string)
	if !ok {
		return false
	}
	switch strings.TrimPrefix(key, "@") {
	case "time", "timestamp":
		at, err := time.Parse(time.RFC3339Nano, text)
		if p.hasTime || err != nil || at.Sub(now).Abs() > maxSkew {
			return false
		}
		p.time, p.hasTime = at, true
	case "level":
		if p.hasLevel {
			return false
		}
		p.level, p.hasLevel = parseLevel(text), true
	case "msg", "message":
		if p.hasMessage {
			return false
		}
		p.message, p.hasMessage = clean(text), true
	default:
		return false
	}
	return true
}

func (p *parsed) attribute(key string, value any) {
	if len(p.attrs) == maxAttributes {
		p.omitted++
		return
	}
	p.attrs = append(p.attrs, slog.Any(p.keys.add(clean(key)), tame(value, maxDepth)))
}

// tame makes a value fit for a log: its texts are clean, and what is nested too deeply is the text of its JSON.
func tame(value any, depth int) any {
	switch v := value.(type) {
	case string:
		return clean(v)
	case []any:
		if depth == 0 {
			return asText(v)
		}
		for i := range v {
			v[i] = tame(v[i], depth-1)
		}
	case map[string]any:
		if depth == 0 {
			return asText(v)
		}
		members := make(map[string]any, len(v))
		for key, member := range v {
			members[clean(key)] = tame(member, depth-1)
		}
		return members
	}
	return value
}

func asText(value any) string {
	text, _ := json.Marshal(value) // it was JSON before
	return clean(text)
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
