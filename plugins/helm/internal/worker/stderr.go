package worker

import (
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

// maxStderr bounds the kept output of a worker during a request, in bytes.
const maxStderr = 32 << 10

// stderr keeps the beginning of a worker's standard error during a request.
type stderr struct {
	mu   sync.Mutex
	kept []byte
}

// Write takes everything, and keeps it as long as there is room.
func (s *stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, p[:min(len(p), maxStderr-len(s.kept))]...)
	return len(p), nil
}

func (s *stderr) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.kept)
}

// panicMessage matches the message of a panic, up to the stack. It may hold values.
var panicMessage = regexp.MustCompile(`(?ms)^panic: .*?(^goroutine |\z)`)

// logTo logs the output since the last call.
func (s *stderr) logTo(log *slog.Logger) {
	text := panicMessage.ReplaceAllString(s.text(), "panic: (its message is not shown, for it may hold values)\n$1")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			log.Debug("a worker writes", "line", line)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = s.kept[:0]
}
