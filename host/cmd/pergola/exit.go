package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes beside 0. docs/cli.md says what they mean for each command.
const (
	// exitNo: the answer is no, such as for an item that has failed; or an error of a command that has no code of its
	// own for that.
	exitNo = 1
	// exitFailure: the command was called in a wrong way, or could not do what it is for. Those of items tell it from
	// exitNo.
	exitFailure = 2
	// exitTimeout: what was waited for has not come in time.
	exitTimeout = 3
)

// exitError ends a command with another exit code than 1.
type exitError struct {
	code int
	err  error // what to tell; nil for nothing
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// failing has an error end the command with exitFailure, unless it has a code of its own.
func failing(err error) error {
	if exit := (*exitError)(nil); err == nil || errors.As(err, &exit) {
		return err
	}
	return &exitError{code: exitFailure, err: err}
}

// conclude tells what has gone wrong, and returns the exit code.
func conclude(out io.Writer, err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		report(out, err)
		return exitNo
	case exit.err != nil:
		report(out, err)
	}
	return exit.code
}

// report prints an error, or each of several that were joined.
func report(out io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintln(out, "error:", strings.TrimSuffix(line, "\n")) // there is nobody else to tell
	}
}
