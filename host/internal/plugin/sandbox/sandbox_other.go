//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

// Command prepares to run a program by its path, without limits and confinement, until the end of ctx at the latest. With confinement
// Required it fails with a *StartError that is errors.ErrUnsupported.
func Command(ctx context.Context, spec Spec) (*Launch, error) {
	if spec.Confinement == Required {
		return nil, &StartError{Step: stepConfine, Err: unsupportedError{Supported().Reason}}
	}
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args...) //nolint:gosec // what to run is the caller's to know
	cmd.Env = append([]string{}, spec.Env...)
	cmd.ExtraFiles = spec.ExtraFiles
	return &Launch{Cmd: cmd, start: func() error {
		if err := cmd.Start(); err != nil {
			return &StartError{Step: stepExecute, Err: err}
		}
		return nil
	}}, nil
}

// Supported says that there is nothing to confine with.
func Supported() Support {
	return Support{Reason: fmt.Sprintf("Landlock is Linux' own, and this is %s", runtime.GOOS)}
}

// Protect does nothing.
func Protect() error { return nil }

// ResidentBytes returns errors.ErrUnsupported.
func ResidentBytes(int) (uint64, error) { return 0, errors.ErrUnsupported }

// GroupResidentBytes returns errors.ErrUnsupported.
func GroupResidentBytes(int) (uint64, error) { return 0, errors.ErrUnsupported }
