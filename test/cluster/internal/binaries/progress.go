package binaries

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	terminalInterval = 250 * time.Millisecond
	logInterval      = 15 * time.Second
)

// progress turns what the go command prints into a report a person likes to
// wait by: one line that updates on a terminal, a line now and then elsewhere.
// It is the writer of the go command's output.
type progress struct {
	out      io.Writer
	terminal bool
	start    time.Time

	mu       sync.Mutex
	partial  []byte   // an unfinished line
	messages []string // lines that are neither a package nor a download
	fetched  int
	compiled int
	total    int
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, start: time.Now()}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// Write takes output of the go command. It never fails.
func (p *progress) Write(output []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, output...)
	for {
		line, rest, whole := bytes.Cut(p.partial, []byte("\n"))
		if !whole {
			return len(output), nil
		}
		p.partial = rest
		p.count(string(line))
	}
}

func (p *progress) count(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.fetched++
	case line != "" && !strings.ContainsAny(line, " \t:"):
		p.compiled++
	default:
		p.messages = append(p.messages, line)
	}
}

// expect sets the number of packages from the output of go list.
func (p *progress) expect(list []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = bytes.Count(list, []byte("\n"))
}

// rest returns the go command's messages, which say why it failed.
func (p *progress) rest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.messages, "\n")
}

// report prints the state of the build until the context ends or the returned
// function is called, which waits for the last line to be out.
func (p *progress) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	_, _ = fmt.Fprintln(p.out, "building Kubernetes for the test cluster: once per version, several minutes on two cores")
	go func() {
		defer close(done)
		interval := logInterval
		if p.terminal {
			interval = terminalInterval
		}
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				p.print(p.state())
			}
		}
	}()
	return func() {
		cancel()
		<-done
		if p.terminal {
			_, _ = fmt.Fprintln(p.out)
		}
	}
}

// finish prints the last line of a build that succeeded.
func (p *progress) finish() {
	p.print(fmt.Sprintf("built in %s", p.elapsed()))
}

func (p *progress) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.total == 0:
		return fmt.Sprintf("%s  downloading sources: %d modules", p.elapsed(), p.fetched)
	case p.compiled == 0:
		return fmt.Sprintf("%s  looking up %d packages in Go's build cache", p.elapsed(), p.total)
	default:
		return fmt.Sprintf("%s  compiled %d of at most %d packages", p.elapsed(), p.compiled, p.total)
	}
}

func (p *progress) elapsed() time.Duration { return time.Since(p.start).Round(time.Second) }

func (p *progress) print(line string) {
	if p.terminal {
		// To the start of the line, and clear what the last one left.
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		return
	}
	_, _ = fmt.Fprintln(p.out, line)
}
