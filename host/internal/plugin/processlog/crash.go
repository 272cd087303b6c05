package processlog

import (
	"bytes"
	"log/slog"
	"regexp"
	"time"
)

const (
	// maxStack bounds a crash report.
	maxStack = 256 << 10
	// crashTime bounds the duration of a crash report: a program may print a similar line and go on.
	crashTime = 10 * time.Second
	// maxCrashLines are the lines of a crash report among the last words: its beginning names the cause, and a thousand
	// goroutines follow.
	maxCrashLines = 12

	stackKey = "stack"
)

// crashStart matches the first line of a fatal error of Go's or Python's runtime.
var crashStart = regexp.MustCompile(`^(panic: |fatal error: |unexpected fault address |` +
	`runtime: (out of memory|goroutine stack exceeds )|SIG[A-Z]+: (abort|bus error|floating-point exception|` +
	`illegal instruction|quit|segmentation violation|bad system call|trace trap)|` +
	`Fatal Python error: |goroutine .*\]:$)`)

// crash is the report of a runtime that ends its process: its first line, and the lines up to the end.
type crash struct {
	began   time.Time
	message []byte
	stack   []byte // at most maxStack
	lines   int    // with the message
}

func newCrash(message []byte, now time.Time) *crash {
	return &crash{began: now, message: bytes.Clone(message), lines: 1}
}

func (c *crash) add(text []byte) {
	c.lines++
	c.stack = append(append(c.stack, text[:min(len(text), maxStack-len(c.stack))]...), '\n')
	c.stack = c.stack[:min(len(c.stack), maxStack)]
}

func (c *crash) record() slog.Record {
	record := slog.NewRecord(c.began, slog.LevelError, clean(c.message), 0)
	stack := clean(bytes.Trim(c.stack, "\n"))
	if len(c.stack) >= maxStack {
		stack += "\n… (cut)"
	}
	if stack != "" {
		record.AddAttrs(slog.String(stackKey, stack))
	}
	return record
}
