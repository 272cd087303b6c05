package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestMain lets this binary be a program that crashes; see crashes.
func TestMain(m *testing.M) {
	if crash, ok := crashes[os.Getenv(crashEnv)]; ok {
		fmt.Fprintln(os.Stderr, "before")
		crash()
		os.Exit(99) // it did not
	}
	os.Exit(m.Run())
}

// noon is the time of a test.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fixture is a Log whose records can be read.
type fixture struct {
	*Log

	t     testing.TB
	clock *clocktesting.FakeClock
	out   bytes.Buffer
}

// newFixture returns one whose budget is as large as it comes by default, or as the options say.
func newFixture(t testing.TB, modify ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clocktesting.NewFakeClock(noon)}
	handler := slog.NewJSONHandler(&f.out, &slog.HandlerOptions{Level: slog.LevelDebug - 4})
	o := Options{Log: slog.New(handler).With("plugin", "mine"), Clock: f.clock}
	for _, m := range modify {
		m(&o)
	}
	f.Log = New(o)
	return f
}

// unlimited is for tests that are not about the budget.
func unlimited(o *Options) { o.LinesPerSecond, o.BytesPerSecond = 1<<40, 1<<40 }

func limited(lines, bytes int) func(*Options) {
	return func(o *Options) { o.LinesPerSecond, o.BytesPerSecond = lines, bytes }
}

func (f *fixture) pass(d time.Duration) { f.clock.Step(d) }

// records returns the records so far, each with the host's own attributes checked and taken out.
func (f *fixture) records() []map[string]any {
	f.t.Helper()
	var list []map[string]any
	for text := range bytes.Lines(f.out.Bytes()) {
		fields := map[string]any{}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&fields); err != nil {
			f.t.Fatalf("record %q: %v", text, err)
		}
		if fields["plugin"] != "mine" {
			f.t.Fatalf("record %q: is of plugin %v", text, fields["plugin"])
		}
		delete(fields, "plugin")
		list = append(list, fields)
	}
	return list
}

// said returns the records of a plugin, as opposed to the host's about it, without stream and time.
func (f *fixture) said() []map[string]any {
	f.t.Helper()
	var list []map[string]any
	for _, r := range f.records() {
		if r["stream"] != nil {
			delete(r, "stream")
			delete(r, "time")
			list = append(list, r)
		}
	}
	return list
}

// told returns what the host has said about dropped lines: lines and bytes.
func (f *fixture) told() [][2]string {
	f.t.Helper()
	var list [][2]string
	for _, r := range f.records() {
		if r["stream"] == nil {
			list = append(list, [2]string{fmt.Sprint(r["lines"]), fmt.Sprint(r["bytes"])})
		}
	}
	return list
}

// write writes a text in pieces of a size.
func write(t testing.TB, w io.Writer, text string, size int) {
	t.Helper()
	for len(text) > 0 {
		piece := text[:min(max(size, 1), len(text))]
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("write of %d bytes: %d, %v", len(piece), n, err)
		}
		text = text[len(piece):]
	}
}

func closeWriter(t testing.TB, w io.Closer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// pieces are the sizes of the writes in which a text arrives.
var pieces = map[string]int{"byte by byte": 1, "in pieces": 7, "at once": 1 << 30}
