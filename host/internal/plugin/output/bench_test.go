package output

import (
	"log/slog"
	"strings"
	"testing"
)

// floods are blocks of what a plugin may write without end, each about as large as a read from a pipe.
var floods = map[string]string{
	"zeros":      strings.Repeat("\x00", 32<<10),
	"newlines":   strings.Repeat("\n", 32<<10),
	"text":       strings.Repeat("0123456789abcde\n", 2<<10),
	"nonsense":   strings.Repeat(`{"@message":123}`+"\n", 2<<10),
	"records":    strings.Repeat(`{"time":"2026-01-02T12:00:00Z","level":"DEBUG","msg":"a step","deployitem":"ns/name","jobID":"7","n":1}`+"\n", 300),
	"errors":     strings.Repeat(`{"time":"2026-01-02T12:00:00Z","level":"ERROR","msg":"a step"}`+"\n", 500),
	"tracebacks": strings.Repeat("Traceback (most recent call last):\nValueError: oh\n", 600),
	"goroutines": "panic: oh\n" + strings.Repeat("\nmain.work(0x1)\n\t/src/main.go:9 +0x27\n", 800),
}

// BenchmarkFlood measures how fast what is beyond the budget is passed over.
func BenchmarkFlood(b *testing.B) {
	for name, block := range floods {
		b.Run(name, func(b *testing.B) {
			benchmark(b, New(Options{Log: slog.New(slog.DiscardHandler)}), block)
		})
	}
}

// BenchmarkRecords measures what it costs to log a record, without the logging.
func BenchmarkRecords(b *testing.B) {
	for _, name := range []string{"text", "nonsense", "records"} {
		b.Run(name, func(b *testing.B) {
			o := Options{Log: slog.New(slog.DiscardHandler)}
			unlimited(&o)
			benchmark(b, New(o), floods[name])
		})
	}
}

func benchmark(b *testing.B, l *Log, block string) {
	b.Helper()
	w := l.Writer("stderr")
	piece := []byte(block)
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = w.Write(piece)
	}
}
