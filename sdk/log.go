package sdk

import (
	"io"
	"log/slog"
)

// newLogger writes records as JSON, a line each, which the host reads back into records. level is one of slog's names in any
// case; an unknown one means info.
func newLogger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))
}
