package output

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	"pgregory.net/rapid"
)

// utterances are what a plugin may write, whole lines or not.
var utterances = []string{
	"text\n", "no end", "\n", "\r\n", "a\r", "\xff\xfe\n", "an error\n", raceRule + "\n",
	`{"level":"INFO","msg":"m","plugin":"other"}` + "\n", `{"@message":123}` + "\n", `{"level":"INFO","msg":"`, "{\n",
	"panic: oh\n", goroutines, race, raceRule + "\n", traceback, "ValueError: oh\n",
	strings.Repeat("x", maxLine), "panic: " + strings.Repeat("x", maxLine), "\tframe\n", strings.Repeat("\tframe\n", 100),
}

func generateOutput(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(utterances), 0, 30).Draw(t, "output"), "")
}

// sizes are of writes: mostly small ones, which is where lines break.
func generateSizes(t *rapid.T) []int {
	return rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 2*maxLine)), 1, 20).Draw(t, "sizes")
}

// How the pipe cuts what a plugin writes into pieces makes no difference, and never more is kept than may be.
func TestAnySplitGivesTheSameRecords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		output, sizes := generateOutput(rt), generateSizes(rt)
		limit := limited(rapid.IntRange(1, 10).Draw(rt, "lines"), rapid.IntRange(1, 3*maxLine).Draw(rt, "bytes"))
		whole, split := newFixture(t, limit), newFixture(t, limit)
		w := whole.Writer("stderr")
		write(t, w, output, len(output))
		closeWriter(t, w)

		w = split.Writer("stderr")
		for i, rest := 0, output; rest != ""; i++ {
			piece := rest[:min(sizes[i%len(sizes)], len(rest))]
			write(t, w, piece, len(piece))
			rest = rest[len(piece):]
			checkKept(rt, w.(*writer))
		}
		closeWriter(t, w)
		if whole.out.String() != split.out.String() {
			rt.Fatalf("records of the whole:\n%.3000s\nof the pieces:\n%.3000s", whole.out.String(), split.out.String())
		}
	})
}

func checkKept(t interface {
	Fatalf(format string, args ...any)
}, w *writer,
) {
	if len(w.pending) > maxLine || cap(w.pending) > 2*maxLine {
		t.Fatalf("%d bytes of a line are kept, in a buffer of %d", len(w.pending), cap(w.pending))
	}
	if r := w.report; r != nil && (len(r.stack) > maxStack+maxLine || cap(r.stack) > 2*maxStack || len(r.message) > maxLine) {
		t.Fatalf("%d bytes of a crash are kept, in a buffer of %d", len(r.stack), cap(r.stack))
	}
}

// Each line is either a record or counted as dropped, and the log and the metric tell the same number.
func TestNoLineIsUnaccountedFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{
			"x", "an error", "\xff", `{"level":"INFO","msg":"m"}`, `{"level":"ERROR","msg":"m"}`, `{"@message":123}`,
			strings.Repeat("x", 2*maxLine),
		}), 0, 200).Draw(rt, "lines")
		f := newFixture(t, limited(rapid.IntRange(1, 10).Draw(rt, "lines a second"), rapid.IntRange(1, maxLine).Draw(rt, "bytes a second")))
		streams := []*writer{f.Writer("stdout").(*writer), f.Writer("stderr").(*writer)}
		for _, text := range lines {
			write(t, rapid.SampledFrom(streams).Draw(rt, "stream"), text+"\n", 1<<20)
			f.pass(rapid.SampledFrom(durations).Draw(rt, "pause"))
		}
		for _, w := range streams {
			closeWriter(t, w)
		}
		dropped, droppedBytes := f.Dropped()
		if got := len(f.said()) + int(dropped); got != len(lines) {
			rt.Fatalf("%d lines, but %d records and %d dropped", len(lines), len(f.said()), dropped)
		}
		told, toldBytes := uint64(0), uint64(0)
		for _, r := range f.records() {
			if r["stream"] == nil {
				told, toldBytes = told+number(t, r["lines"]), toldBytes+number(t, r["bytes"])
			}
		}
		if told != dropped || toldBytes != droppedBytes {
			rt.Fatalf("%d lines of %d bytes were dropped, but the log tells %d of %d", dropped, droppedBytes, told, toldBytes)
		}
	})
}

var durations = []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 2 * time.Second, 10 * time.Second}

func number(t *testing.T, value any) uint64 {
	t.Helper()
	text, ok := value.(json.Number)
	n, err := strconv.ParseUint(text.String(), 10, 64)
	if !ok || err != nil {
		t.Fatalf("%v is no number", value)
	}
	return n
}

// FuzzOutput: nothing that a plugin writes makes a record that is broken or says of itself that it is another's.
func FuzzOutput(f *testing.F) {
	for _, text := range utterances {
		if len(text) < maxLine { // long inputs slow the search down
			f.Add([]byte(text), 3)
			f.Add([]byte(text), 1<<10)
		}
	}
	for _, text := range []string{
		`{"time":"2026-01-02T12:00:00Z","level":"INFO","msg":"m","n":9007199254740993}`, `{"level":"INFO","msg":"m","":{"":[]}}`,
		`{"@level":"trace","@message":"m","@timestamp":"2026-01-02T03:04:05.000000Z"}`, `{"level":"info","msg":"x"} tail`,
		`{"level":"INFO","msg":"m","a":null,"A":1,"a":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}`, `{"a"`, `{"level":"info","msg":"x"]`,
	} {
		f.Add([]byte(text+"\n"), 7)
	}
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		l := newFixture(t, unlimited)
		w := l.Writer("stderr")
		for rest := in; len(rest) > 0; {
			piece := rest[:min(max(size, 1), len(rest))]
			write(t, w, string(piece), len(piece))
			rest = rest[len(piece):]
			checkKept(t, w.(*writer))
		}
		closeWriter(t, w)
		l.records() // fails if one is broken
		for text := range bytes.Lines(l.out.Bytes()) {
			checkKeys(t, text)
		}
		if lines := bytes.Count(in, []byte("\n")) + 1; bytes.Count(l.out.Bytes(), []byte("\n")) > lines {
			t.Errorf("%d lines became more records: %s", lines, l.out.Bytes())
		}
		for _, text := range l.Tail(time.Minute) {
			if clean(text) != text || len(text) > tailLine {
				t.Errorf("tail has %q", text)
			}
		}
	})
}

// checkKeys fails if a key of a record is there twice, or the host's is not there.
func checkKeys(t *testing.T, text []byte) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for decoder.More() {
		key, value, err := field(decoder)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[strings.ToLower(key)]; twice {
			t.Fatalf("key %q is twice in %s", key, text)
		}
		found[strings.ToLower(key)] = value
	}
	if found["plugin"] != "mine" || found["stream"] != "stderr" || found[slog.TimeKey] == nil || found[slog.LevelKey] == nil {
		t.Fatalf("the host's attributes are not in %s", text)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	l := New(Options{Log: slog.New(slog.DiscardHandler)})
	if _, ok := l.clock.(clock.RealClock); !ok {
		t.Errorf("expected the real clock, but found %T", l.clock)
	}
	if key := l.reserved.add("Plugin"); key != "plugin_Plugin" {
		t.Errorf("expected \"plugin\" to be reserved, but found %q free", key)
	}
}
