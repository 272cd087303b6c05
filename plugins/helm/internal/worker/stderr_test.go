package worker

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var loggedLine = regexp.MustCompile(`line="?([^"\n]*)"?`)

// logged has a text written in pieces, and returns the lines that are logged and what the process has died of.
func logged(t interface{ Fatal(args ...any) }, pieces ...string) ([]string, death) {
	var log logger
	s := &stderr{log: log.Log()}
	for _, piece := range pieces {
		if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	s.flush()
	var lines []string
	for _, found := range loggedLine.FindAllStringSubmatch(log.String(), -1) {
		lines = append(lines, found[1])
	}
	return lines, s.death
}

const withheld = "panic: (its message is not shown, for it may hold values)"

func TestStderr(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason, text string
		lines        []string
		death        death
	}{
		{"lines", "one\n\ntwo", []string{"one", "two"}, deathUnknown},
		{"what could redraw a line", "a\x1b[2Jb\xff\n", []string{"a\ufffd[2Jb\ufffd"}, deathUnknown},
		{"a long line", strings.Repeat("x", 1000) + "\ny\n", []string{strings.Repeat("x", maxLine) + "…", "y"}, deathUnknown},
		{
			"a panic, with whatever it says", "panic: secret\nmore secrets\n\tpanic: secret\n\ngoroutine 1 [running]:\nmain.f()\n",
			[]string{withheld, "goroutine 1 [running]:", "main.f()"}, deathPanic,
		},
		{
			"a panic with a signal", "panic: secret\n[signal SIGSEGV: segmentation violation]\n\ngoroutine 1 [running]:\n",
			[]string{withheld, "[signal SIGSEGV: segmentation violation]", "goroutine 1 [running]:"}, deathPanic,
		},
		{
			"a stack that is full", "runtime: goroutine stack exceeds 33554432-byte limit\nfatal error: stack overflow\n",
			[]string{"runtime: goroutine stack exceeds 33554432-byte limit", "fatal error: stack overflow"}, deathStack,
		},
		{"no memory", "fatal error: runtime: cannot allocate memory\n", []string{"fatal error: runtime: cannot allocate memory"}, deathMemory},
		{"no memory for one block", "fatal error: runtime: out of memory\n", []string{"fatal error: runtime: out of memory"}, deathMemory},
		{"something else", "fatal error: concurrent map writes\n", []string{"fatal error: concurrent map writes"}, deathFatal},
		{"memory of a process that C code has crashed in", "stack: frame\n00007ffc45155940: 102e895e  ^...\nnext\n", []string{"stack: frame", "next"}, deathUnknown},
		{"what only mentions it", "it says fatal error: out of memory\n", []string{"it says fatal error: out of memory"}, deathUnknown},
	} {
		lines, death := logged(t, test.text)
		if diff := cmp.Diff(test.lines, lines); diff != "" || death != test.death {
			t.Errorf("%s: death %d, -want +got:\n%s", test.reason, death, diff)
		}
	}
}

// It makes no difference in which pieces a text comes.
func TestStderrInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{
			"panic: ", "fatal error: ", "out of memory", "goroutine 1", "\n", "\n\n", "secret", "x", "ü", strings.Repeat("y", 300),
		})).Draw(t, "text"), "")
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		wantLines, wantDeath := logged(t, text)
		lines, death := logged(t, pieces...)
		if diff := cmp.Diff(wantLines, lines); diff != "" || death != wantDeath {
			t.Fatalf("deaths %d and %d, -want +got:\n%s", wantDeath, death, diff)
		}
	})
}

func TestStderrEnds(t *testing.T) {
	t.Parallel()
	var log logger
	s := &stderr{log: log.Log()}
	text := []byte(strings.Repeat("x\n", 1<<19))
	for range maxStderr / len(text) {
		if _, err := s.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, errTooMuch) {
		t.Errorf("found %v", err)
	}
	s.flush()
	if n := strings.Count(log.String(), "\n"); n != maxLines+1 {
		t.Errorf("expected %d lines in the log, but found %d", maxLines+1, n)
	}
}
