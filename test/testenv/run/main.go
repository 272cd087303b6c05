// Command run starts a control plane, runs a command whose tests share it, and stops it. It exits with the command's
// code.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pergola-deploy/pergola/test/testenv"
)

func main() {
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command []string) (err error) {
	if len(command) == 0 {
		return errors.New("run needs a command")
	}
	dir, err := os.MkdirTemp("", "pergola-test-")
	if err != nil {
		return fmt.Errorf("create directory of the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	controlPlane, err := testenv.StartControlPlane(ctx, dir, testenv.WithoutAuditLog())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, controlPlane.Stop()) }()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env = append(os.Environ(), testenv.SharedKubeconfigEnv+"="+controlPlane.Kubeconfig)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
