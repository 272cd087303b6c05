//go:build !linux

package worker

import (
	"os"
	"syscall"
)

// programPath names the file of this program.
func programPath() (string, error) { return os.Executable() }

func attributes() *syscall.SysProcAttr { return nil }

// lowerPriority does nothing: elsewhere priorities are those of processes.
func lowerPriority() error { return nil }
