package sdk

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoggerWritesJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := newLogger(&out, "debug").With("deployitem", "default/item")
	log.Warn("two\nlines", "count", 9007199254740993, slog.Group("cause", "field", `a "quoted" name`))

	var got map[string]any
	decoder := json.NewDecoder(&out)
	decoder.UseNumber()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("the record is no JSON: %v", err)
	}
	if decoder.More() {
		t.Error("the record takes more than one line")
	}
	delete(got, "time")
	want := map[string]any{
		"level": "WARN", "msg": "two\nlines", "deployitem": "default/item", "count": json.Number("9007199254740993"),
		"cause": map[string]any{"field": `a "quoted" name`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestLoggerLevel(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, level string
		want          slog.Level
	}{
		"Debug":   {reason: "slog's names", level: "debug", want: slog.LevelDebug},
		"Warn":    {reason: "in any case", level: "WARN", want: slog.LevelWarn},
		"Error":   {reason: "slog's names", level: "error", want: slog.LevelError},
		"Nothing": {reason: "a host may say nothing", level: "", want: slog.LevelInfo},
		"Unknown": {reason: "a later host may know more levels", level: "chatty", want: slog.LevelInfo},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := newLogger(&bytes.Buffer{}, tc.level)
			if !log.Enabled(t.Context(), tc.want) || log.Enabled(t.Context(), tc.want-1) {
				t.Errorf("%s: %q does not mean %s", tc.reason, tc.level, tc.want)
			}
		})
	}
}
