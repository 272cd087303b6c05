package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes beside 0. docs/deploy-items.md explains them per command.
const (
	// ExitNo is a negative answer, such as a failed item, or any error of a command without a code for negative answers.
	ExitNo = 1
	// ExitFailure is wrong usage, or an error of a command with a code for negative answers.
	ExitFailure = 2
	// ExitTimeout is the end of a wait without its goal.
	ExitTimeout = 3
)

// ExitError ends a command with an exit code other than 1.
type ExitError struct {
	Code int
	// Err is printed; nil for silence.
	Err error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Failing gives an error the exit code ExitFailure, unless it has a code of its own.
func Failing(err error) error {
	if exit := (*ExitError)(nil); err == nil || errors.As(err, &exit) {
		return err
	}
	return &ExitError{Code: ExitFailure, Err: err}
}

// Code returns the exit code of an error.
func Code(err error) int {
	var exit *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	default:
		return ExitNo
	}
}

// Conclude prints the error of a command, in a line for each of several joined errors, and returns the exit code.
func Conclude(out io.Writer, err error) int {
	var exit *ExitError
	if err == nil || errors.As(err, &exit) && exit.Err == nil {
		return Code(err)
	}
	for line := range strings.Lines(err.Error()) {
		// Standard error is the only place for errors, also for this one.
		_, _ = fmt.Fprintln(out, "error:", strings.TrimSuffix(line, "\n"))
	}
	return Code(err)
}
