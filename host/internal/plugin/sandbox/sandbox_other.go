//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
)

// Command prepares to run a program by its path, without limits and confinement, until the end of ctx at the latest.
// With confinement Required it fails with errors.ErrUnsupported.
func Command(ctx context.Context, spec Spec) (*exec.Cmd, error) {
	if err := Supported().check(spec.Confinement); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args...) //nolint:gosec // what to run is the caller's to know
	cmd.Env = append([]string{}, spec.Env...)
	cmd.ExtraFiles = spec.ExtraFiles
	return cmd, nil
}

// Supported says that there is nothing to confine with.
func Supported() Support {
	return Support{Reason: "Landlock is Linux' own, and this is " + runtime.GOOS}
}

// Protect does nothing.
func Protect() error { return nil }

// SessionBytes returns errors.ErrUnsupported.
func SessionBytes(int) (uint64, error) { return 0, errors.ErrUnsupported }

// Start starts a program in a session of its own.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// Clean kills the process group of a program of Start after its end.
func Clean(cmd *exec.Cmd) error {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // mostly there is nothing left
	return nil
}
