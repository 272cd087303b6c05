package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// RunTests runs the tests of a package with one control plane for all of them, and returns the code to exit with. use takes
// the control plane before the first test; without it no test runs. It is called from TestMain with its *testing.M.
func RunTests(tests interface{ Run() int }, use func(*ControlPlane) error) (code int) {
	code, err := runTests(tests, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runTests(tests interface{ Run() int }, use func(*ControlPlane) error) (code int, err error) {
	dir, err := os.MkdirTemp("", "pergola-test-")
	if err != nil {
		return 1, fmt.Errorf("create directory of the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	controlPlane, err := StartControlPlane(context.Background(), dir)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, controlPlane.Stop()) }()
	if err := use(controlPlane); err != nil {
		return 1, err
	}
	return tests.Run(), nil
}
