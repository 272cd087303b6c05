package launch

import (
	"bytes"
	"io"
	"strings"
)

// maxHandshake bounds the first line of a plugin. It holds a certificate of less than a kilobyte. go-plugin reads at
// most 64 KiB, and blocks the writer of more.
const maxHandshake = 16 << 10

// firstLine is the standard output of a plugin. It passes the first line, the handshake, to a reader, and the rest to
// the log.
type firstLine struct {
	reader *io.PipeReader
	writer *io.PipeWriter
	rest   io.WriteCloser

	line  []byte
	ended bool
}

func newFirstLine(rest io.WriteCloser) *firstLine {
	f := &firstLine{rest: rest}
	f.reader, f.writer = io.Pipe()
	return f
}

func (f *firstLine) Write(p []byte) (int, error) {
	if f.ended {
		return f.rest.Write(p)
	}
	line, rest, complete := bytes.Cut(p, []byte{'\n'})
	f.line = append(f.line, line[:min(len(line), maxHandshake-len(f.line))]...)
	if complete || len(f.line) == maxHandshake {
		f.end()
		_, _ = f.rest.Write(rest) // it never fails
	}
	return len(p), nil
}

// Close ends the first line, and the rest. It may be repeated.
func (f *firstLine) Close() error {
	if !f.ended {
		f.end()
	}
	return f.rest.Close()
}

func (f *firstLine) end() {
	f.ended = true
	if line := f.text(); line != "" { // then a process is there, and go-plugin reads its output
		_, _ = io.WriteString(f.writer, line+"\n")
	}
	_ = f.writer.Close() // it never fails
}

func (f *firstLine) text() string { return strings.TrimSpace(string(f.line)) }
