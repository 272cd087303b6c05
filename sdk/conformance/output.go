package conformance

import (
	"io"
	"sync"
)

// maxOutput bounds what is passed on of what one process writes.
const maxOutput = 1 << 20

// output passes on what a plugin writes, up to a limit. A write never fails, because the plugin's pipe would break.
type output struct {
	mu   sync.Mutex
	to   io.Writer
	left int
}

func newOutput(to io.Writer) *output {
	if to == nil {
		to = io.Discard
	}
	return &output{to: to, left: maxOutput}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left == 0 {
		return len(p), nil
	}
	passed := p[:min(len(p), o.left)]
	o.left -= len(passed)
	_, _ = o.to.Write(passed)
	if o.left == 0 {
		_, _ = io.WriteString(o.to, "\n(the plugin writes on; the rest is cut)\n")
	}
	return len(p), nil
}
