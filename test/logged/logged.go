// Package logged keeps a log, so that tests see its records.
package logged

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
)

// Records is a log of all levels. The zero value is empty. It may be used concurrently.
type Records struct {
	mu  sync.Mutex
	out bytes.Buffer
}

// Write takes lines of a log.
func (r *Records) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

// Logger returns the log.
func (r *Records) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))
}

// All returns the records so far. Numbers are json.Number, and a line that is no record is the field "broken".
func (r *Records) All() []map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []map[string]any
	for line := range bytes.Lines(r.out.Bytes()) {
		fields := map[string]any{}
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&fields); err != nil {
			fields["broken"] = string(line)
		}
		list = append(list, fields)
	}
	return list
}

// With returns the records with a message of this beginning.
func (r *Records) With(message string) []map[string]any {
	var list []map[string]any
	for _, fields := range r.All() {
		if text, ok := fields["msg"].(string); ok && strings.HasPrefix(text, message) {
			list = append(list, fields)
		}
	}
	return list
}
