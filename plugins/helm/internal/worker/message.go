package worker

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// order is what a parent sends: one of these.
type order struct {
	Request *helm.Request
	// Answer is that to report.Rendered.
	Answer *answer
	// Stop asks to stop the request.
	Stop bool
}

// answer says which objects are to be created, or that the deployer refuses them.
type answer struct {
	Objects []helm.Object
	Refused bool
}

// report is what a worker sends: one of these, or nothing when it has started.
type report struct {
	// Rendered asks for an answer.
	Rendered *rendered
	Progress *progress
	Log      string
	// Done ends the request.
	Done *done
}

type rendered struct{ Objects []helm.Object }

type progress struct{ Step, Message string }

// done is how a request has ended: with one of Result and Err, or with neither because it was stopped.
type done struct {
	Result *helm.Result
	Err    *helm.Error
	// Dropped is how many lines and progress messages were not sent because there were too many.
	Dropped int
	// Busy is how much time of processors the process has used since it was started.
	Busy time.Duration
	// Last says that the process cannot take another request.
	Last bool
}

// What is kept of texts, in bytes.
const (
	maxMessage  = 16 << 10
	maxLogLine  = 2 << 10
	maxLogLines = 50
	maxKept     = 64 << 10
)

// slackBytes is how large a message may be beside what the limits of the request explain.
const slackBytes = 4 << 20

// maxReport is how large a message of a worker may be: objects are rendered as YAML, and JSON may be longer.
func maxReport(req *helm.Request) int64 {
	return 2*req.Limits.RenderedBytes + req.Limits.UnpackedBytes + 2*int64(len(req.Values)) + slackBytes
}

// errTooMuch says that something is larger than it may be.
var errTooMuch = errors.New("it sends too much")

// boundedReader ends with errTooMuch in a message that is larger than limit.
type boundedReader struct {
	from  io.Reader
	limit atomic.Int64
	read  int64 // of the message
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.read += int64(n); b.read > b.limit.Load() {
		return 0, errTooMuch
	}
	return n, err
}

// bounded returns what is kept of an error.
func bounded(e *helm.Error) *helm.Error {
	kept := *e
	kept.Message, kept.Log = shorten(cleanLines(e.Message), maxMessage), nil
	for _, line := range e.Log[max(len(e.Log)-maxLogLines, 0):] {
		kept.Log = append(kept.Log, shorten(clean(line), maxLogLine))
	}
	return &kept
}

// cleanLines is clean for a text of several lines.
func cleanLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// shorten cuts a text that is longer than so many bytes, and marks the cut. It never leaves half a character.
func shorten(text string, most int) string {
	const mark = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(mark)], "") + mark
}
