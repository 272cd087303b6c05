package telemetry_test

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// logLines are the lines of a log as they are written, without their times.
type logLines chan string

// newLog returns a log and its lines.
func newLog() (*slog.Logger, logLines) {
	lines := make(logLines, 100) // more than any test logs
	return slog.New(slog.NewJSONHandler(lines, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	})), lines
}

var _ io.Writer = logLines(nil)

func (l logLines) Write(line []byte) (int, error) {
	l <- strings.TrimSuffix(string(line), "\n")
	return len(line), nil
}

// next waits for the next line.
func (l logLines) next(t *testing.T) string {
	t.Helper()
	return receive(t, l, "a line of the log")
}

// all are the lines that were not read so far.
func (l logLines) all() []string {
	var lines []string
	for {
		select {
		case line := <-l:
			lines = append(lines, line)
		default:
			return lines
		}
	}
}

// receive waits for what a channel has next.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	var got T
	select {
	case got = <-from:
	case <-time.After(30 * time.Second):
		t.Fatalf("waited too long for %s", what)
	}
	return got
}
