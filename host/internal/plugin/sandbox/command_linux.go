package sandbox

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Command prepares to run a program, until the end of ctx at the latest. Nothing is started or held open by it. With confinement
// Required it fails where the kernel cannot confine, with a *StartError that is errors.ErrUnsupported.
func Command(ctx context.Context, spec Spec) (*Launch, error) {
	return command(ctx, spec, Supported())
}

func command(ctx context.Context, spec Spec, support Support) (*Launch, error) {
	if spec.Confinement == Required && support.ABI == 0 {
		return nil, &StartError{Step: stepConfine, Err: unsupportedError{support.Reason}}
	}
	var orders bytes.Buffer
	err := gob.NewEncoder(&orders).Encode(order{
		Args:       append([]string{spec.Path}, spec.Args...),
		Env:        withMemoryLimit(spec.Env, spec.MemoryBytes),
		ExtraFiles: len(spec.ExtraFiles),
		OpenFiles:  spec.OpenFiles,
		DataBytes:  dataLimit(spec.MemoryBytes),
		Confine:    spec.Confinement != Off && support.ABI > 0,
		Read:       spec.Read,
		Write:      spec.Write,
	})
	if err != nil {
		return nil, fmt.Errorf("write the launcher's orders: %w", err)
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{launcherName}
	cmd.Env = []string{}
	cmd.Stdin = &orders
	launch := &Launch{Cmd: cmd}
	launch.start = func() error { return start(cmd, spec) }
	return launch, nil
}

// start starts the launcher and waits until it has become the program, or has not.
func start(cmd *exec.Cmd, spec Spec) error {
	status, statusEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create the launcher's status: %w", err)
	}
	defer func() { _ = status.Close() }() // it was only read
	cmd.ExtraFiles = append(slices.Clone(spec.ExtraFiles), spec.Program, statusEnd)
	err = cmd.Start()
	_ = statusEnd.Close() // the launcher has its own, or never will; nobody else may, or the end would not come
	if err != nil {
		return err
	}
	var found failure
	switch err := gob.NewDecoder(status).Decode(&found); {
	case errors.Is(err, io.EOF):
		return nil // closed by the execve, or with the launcher's life
	case err != nil:
		found = failure{Step: "start it", Text: fmt.Sprintf("its launcher talks nonsense: %s", err)}
		_ = cmd.Process.Kill() // it may have ended
	}
	_ = cmd.Wait() // it says that the launcher has failed, which we know better
	return &StartError{Step: found.Step, Err: found.cause()}
}

// order is what a launcher is told.
type order struct {
	Args, Env   []string
	ExtraFiles  int    // how many
	OpenFiles   uint64 // 0: as they are
	DataBytes   uint64 // 0: as it is
	Confine     bool
	Read, Write []string
}

// failure is what a launcher answers when it cannot do as it is told.
type failure struct {
	Step  string
	Text  string
	Errno syscall.Errno // 0 if it was no error of the system's
}

func newFailure(step string, err error) failure {
	f := failure{Step: step, Text: err.Error()}
	_ = errors.As(err, &f.Errno) // else it stays 0
	return f
}

// cause returns the error as the launcher had it, as far as it can be carried.
func (f failure) cause() error {
	if f.Errno == 0 {
		return errors.New(f.Text)
	}
	return launcherError{f}
}

// launcherError is an error of the system's that a launcher has met.
type launcherError struct{ failure failure }

func (e launcherError) Error() string { return e.failure.Text }

func (e launcherError) Unwrap() error { return e.failure.Errno }

// withMemoryLimit lets Go's garbage collector know of the limit, a tenth before it: it counts neither the program's own code nor what
// C libraries use.
func withMemoryLimit(env []string, memoryBytes uint64) []string {
	const name = "GOMEMLIMIT="
	if memoryBytes == 0 || slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name) }) {
		return env
	}
	return append(slices.Clone(env), name+strconv.FormatUint(memoryBytes/10*9, 10))
}
