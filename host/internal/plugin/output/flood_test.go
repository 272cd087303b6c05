package output

import (
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason       string
		lines, bytes int
		line         string
		first        int // how many lines pass at once
		later        int // how many pass a second later
	}{
		"lines":           {"five seconds' worth may come at once", 10, 1 << 20, "x", 50, 10},
		"bytes":           {"long lines cost more", 1000, 100, strings.Repeat("x", 50), 10, 2},
		"more than all":   {"a line longer than the budget passes when nothing is owed", 1000, 100, strings.Repeat("x", 5000), 1, 0},
		"less than one":   {"a line passes however little there is to share", 1, 1 << 20, "an error", 6, 1},
		"nearly nothing":  {"bytes may be owed", 1, 1, "x", 5, 1},
		"text of errors":  {"a tenth is set aside for errors", 100, 1 << 20, "ERROR: oh", 550, 110},
		"error of slog":   {"whoever writes them", 100, 1 << 20, `{"time":"2026-01-02T12:00:00Z","level":"ERROR","msg":"m"}`, 550, 110},
		"error of hclog":  {"whoever writes them", 100, 1 << 20, `{"@caller":"f.go:1","@level":"error","@message":"m"}`, 550, 110},
		"error far away":  {"a flood is not read to its end", 100, 1 << 20, strings.Repeat("x", 256) + "error", 500, 100},
		"crash reports":   {"a tenth is set aside for them", 10, 1 << 20, "Traceback (most recent call last):\nValueError", 55, 11},
		"default":         {"500 lines a second", 0, 0, "x", 2500, 500},
		"default of size": {"1 MiB a second", 0, 0, strings.Repeat("x", 16<<10), 320, 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, limited(test.lines, test.bytes))
			w := f.Writer("stderr")
			const flood = 3000
			write(t, w, strings.Repeat(test.line+"\n", flood), 32<<10)
			if got := len(f.said()); got != test.first {
				t.Errorf("%s: expected %d records, but found %d", test.reason, test.first, got)
			}
			lines, bytes := f.Dropped()
			perLine := 1 + strings.Count(test.line, "\n")
			wantLines := uint64((flood - test.first) * perLine)
			wantBytes := uint64((flood - test.first) * (len(test.line) + 1 - perLine))
			if lines != wantLines || bytes != wantBytes {
				t.Errorf("%s: expected %d lines and %d bytes to be dropped, but found %d and %d", test.reason, wantLines, wantBytes, lines, bytes)
			}
			f.out.Reset()
			f.pass(time.Second)
			write(t, w, strings.Repeat(test.line+"\n", flood), 32<<10)
			if got := len(f.said()); got != test.later {
				t.Errorf("%s: expected %d records a second later, but found %d", test.reason, test.later, got)
			}
		})
	}
}

// Of a long line all is counted, not only what would have been logged.
func TestDroppedLongLines(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limited(1, 1))
	write(t, f.Writer("stderr"), strings.Repeat(strings.Repeat("x", 2*maxLine)+"\n", 10), 32<<10)
	if lines, bytes := f.Dropped(); lines != 9 || bytes != 9*2*maxLine {
		t.Errorf("expected 9 lines and %d bytes to be dropped, but found %d and %d", 9*2*maxLine, lines, bytes)
	}
}

// Saving for longer than the burst brings nothing, and a clock that goes back takes nothing.
func TestBudgetIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limited(10, 1<<20))
	w := f.Writer("stderr")
	for _, step := range []struct {
		pass  time.Duration
		lines int
		want  int // records in all
	}{{0, 1000, 50}, {time.Hour, 1, 51}, {-2 * time.Hour, 1000, 100}, {2*time.Hour + time.Second, 1000, 110}} {
		f.pass(step.pass)
		write(t, w, strings.Repeat("x\n", step.lines), 32<<10)
		if got := len(f.said()); got != step.want {
			t.Errorf("after %s: expected %d records, but found %d", step.pass, step.want, got)
		}
	}
}

func TestStreamsShareTheBudget(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limited(10, 1<<20))
	for _, stream := range []string{"stdout", "stderr"} {
		w := f.Writer(stream)
		write(t, w, strings.Repeat("x\n", 30), 32<<10)
		closeWriter(t, w)
	}
	streams := map[any]int{}
	for _, r := range f.records() {
		streams[r["stream"]]++
	}
	if diff := cmp.Diff(map[any]int{"stdout": 30, "stderr": 20, nil: 1}, streams); diff != "" {
		t.Errorf("records of each stream (-want +got):\n%s", diff)
	}
}

// go-plugin writes some of the streams, exec.Cmd others, while the host reads the figures.
func TestStreamsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limited(10, 1<<20))
	var group errgroup.Group
	const lines = 200
	for _, stream := range []string{"stdout", "stderr", "other"} {
		w := f.Writer(stream)
		group.Go(func() error {
			for range lines {
				if _, err := io.WriteString(w, "text\n"); err != nil {
					return err
				}
				f.Dropped()
				f.Tail(time.Minute)
			}
			return w.Close()
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if dropped, _ := f.Dropped(); len(f.said())+int(dropped) != 3*lines {
		t.Errorf("%d lines, but %d records and %d dropped", 3*lines, len(f.said()), dropped)
	}
}

func TestStreamsDoNotMix(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stdout, stderr := f.Writer("stdout"), f.Writer("stderr")
	write(t, stdout, "half", 4)
	write(t, stderr, "whole\npanic: oh\n", 32)
	write(t, stdout, " and half\n", 32)
	closeWriter(t, stderr)
	closeWriter(t, stdout)
	want := []map[string]any{info("whole"), info("half and half"), crash("panic: oh", "")}
	if diff := cmp.Diff(want, f.said()); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// The log says how much was dropped every few seconds while it goes on, and when it is over, though the plugin may write nothing more.
func TestWhatIsDroppedIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limited(10, 1<<20))
	w := f.Writer("stderr")
	step := func(reason string, after time.Duration, lines int, want ...[2]string) {
		t.Helper()
		f.pass(after)
		write(t, w, strings.Repeat("xyz\n", lines), 32<<10)
		if diff := cmp.Diff(want, f.told()); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", reason, diff)
		}
		f.out.Reset()
	}
	step("a flood begins", 0, 53)
	for range 5 {
		step("it goes on", 900*time.Millisecond, 10) // of which 9 pass
	}
	step("a few seconds have passed", 500*time.Millisecond, 5, [2]string{"8", "24"})
	step("it goes on, and has only just been told", time.Second, 12) // of which 10 pass
	step("the plugin has fallen silent", 5*time.Second-1, 0)
	step("a few seconds have passed again", 1, 0, [2]string{"2", "6"})
	step("nothing is new", time.Minute, 1)
	f.pass(time.Minute)
	write(t, w, strings.Repeat("xyz\n", 60), 32<<10)
	closeWriter(t, w)
	if diff := cmp.Diff([][2]string{{"10", "30"}}, f.told()); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
	f.out.Reset()
	step("all was told at the end", time.Minute, 0)
	if lines, bytes := f.Dropped(); lines != 20 || bytes != 60 {
		t.Errorf("expected 20 lines and 60 bytes to be dropped in all, but found %d and %d", lines, bytes)
	}
}

// A crash is never lost in a flood: neither the program's last words nor, unless there are very many, those of its calls.
func TestCrashInAFlood(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limited(10, 1<<20))
	w := f.Writer("stderr")
	flood := strings.Repeat("an error\n", 1000)
	write(t, w, flood+traceback+"ValueError: oh\n"+flood+strings.Repeat("Traceback (most recent call last):\nKeyError: 1\n", 1000)+"panic: last words\n\n"+goroutines, 32<<10)
	closeWriter(t, w)
	var crashes []any
	for _, r := range f.said() {
		if r["level"] == "ERROR" && r["msg"] != "KeyError: 1" {
			crashes = append(crashes, r["msg"])
		}
	}
	if diff := cmp.Diff([]any{"ValueError: oh", "panic: last words"}, crashes); diff != "" {
		t.Errorf("crashes (-want +got):\n%s", diff)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	numbered := &strings.Builder{}
	var last []string
	for i := range 1000 {
		fmt.Fprintf(numbered, "%d\n", i)
		last = append(last, fmt.Sprint(i))
	}
	manyFrames := strings.Repeat("\tframe\n", 100)
	for name, test := range map[string]struct {
		reason, in string
		want       []string
	}{
		"nothing": {"a program may be silent", "", nil},
		"few lines": {"the oldest comes first, and what says nothing is passed over",
			"one\n\n" + raceRule + "\n" + `{"a":1}` + "\nthree", []string{"one", `{"a":1}`, "three"}},
		"many lines": {"those that were dropped are the last words, too", numbered.String(), last[len(last)-tailLines:]},
		"panic": {
			"the first lines of a panic say more than its last", numbered.String() + "panic: oh\n\n" + goroutines + manyFrames,
			slices.Concat(last[len(last)-tailLines+gistLines:], []string{"panic: oh"},
				strings.FieldsFunc(strings.ReplaceAll(goroutines, "\t", "    "), func(r rune) bool { return r == '\n' }), slices.Repeat([]string{"    frame"}, 3)),
		},
		"exception": {
			"the last lines of a traceback say more than its first",
			"Traceback (most recent call last):\n" + strings.Repeat("  File\n", 100) + "ValueError: oh\n",
			append(slices.Repeat([]string{"  File"}, gistLines-1), "ValueError: oh"),
		},
		"exception that breaks off": {
			"its lines stay in order", "Traceback (most recent call last):\n  File", []string{"Traceback (most recent call last):", "  File"},
		},
		"records": {"they are read by people", `{"time":"2026-01-02T12:00:00Z","level":"INFO","msg":"no room","disk":"/tmp","free":0}` + "\n" +
			`{"@level":"error","@message":"no \u001b[31mdisk\u001b[0m","@timestamp":"2026-01-02T12:00:00.000000Z"}` + "\n",
			[]string{"no room disk=/tmp free=0", "no disk"}},
		"colours": {"they are nothing to read", "\x1b[1;31mred\x1b[0m\x1b[2K alert\a\n", []string{"red alert"}},
		"long lines": {
			"all of them must find room in a record", strings.Repeat("x", 3*maxLine) + "\n" + strings.Repeat("\x7f", maxLine) + "\n\xff\n",
			[]string{strings.Repeat("x", tailLine), strings.Repeat("\uFFFD", tailLine/3), "\uFFFD"},
		},
	} {
		f := newFixture(t, limited(10, 1<<20))
		w := f.Writer("stderr")
		write(t, w, test.in, 32<<10)
		closeWriter(t, w)
		if diff := cmp.Diff(test.want, f.Tail(time.Minute)); diff != "" {
			t.Errorf("%s: %s: tail (-want +got):\n%.2000s", name, test.reason, diff)
		}
	}
}

// What a process has said long before it ended has nothing to do with its end.
func TestTailIsOfTheEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.Writer("stderr")
	write(t, w, "long ago\n", 32)
	f.pass(time.Minute)
	write(t, w, "lately\n", 32)
	f.pass(time.Second)
	if diff := cmp.Diff([]string{"lately"}, f.Tail(10*time.Second)); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}

// What is beyond the budget is passed over before it costs anything. (A traceback is short, and known as one only at its end.)
func TestFloodsAllocateNothing(t *testing.T) {
	for name, block := range floods {
		f := newFixture(t, limited(1, 1))
		w := f.Writer("stderr")
		piece := []byte(block)
		for range 10 { // until the budget is used up and each buffer as large as it becomes
			write(t, w, block, len(block))
		}
		allocated := testing.AllocsPerRun(10, func() { _, _ = w.Write(piece) })
		if tracebacks := strings.Count(block, "Traceback"); allocated > float64(10*tracebacks) {
			t.Errorf("%s: expected no allocation for %d bytes, but found %v", name, len(piece), allocated)
		}
	}
}

// Whatever a plugin writes, little of it stays in memory.
func TestMemoryIsBounded(t *testing.T) {
	live := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	const megabytes = 8
	for name, block := range floods {
		l := New(Options{Log: slog.New(slog.NewJSONHandler(io.Discard, nil))})
		w := l.Writer("stderr")
		piece := []byte(block)
		before := live()
		for range megabytes << 20 / len(piece) {
			_, _ = w.Write(piece)
		}
		if after := live(); after > before+1<<20 {
			t.Errorf("%s: of %d MiB %d KiB are kept", name, megabytes, (after-before)>>10)
		}
		closeWriter(t, w)
	}
}
