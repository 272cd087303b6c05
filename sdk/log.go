package sdk

import (
	"io"
	"log/slog"
)

// newLogger writes records as JSON, a line each, which the host reads back into records. level is one of slog's names in any
// case; an unknown one means info.
func newLogger(w io.Writer, level string) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: logLevel(level, slog.LevelInfo)}))
}

// logLevel reads one of slog's names; anything else means the default.
func logLevel(name string, byDefault slog.Level) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return byDefault
	}
	return level
}
