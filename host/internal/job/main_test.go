package job

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// The control plane of this package, and its administrator.
var (
	controlPlane *testenv.ControlPlane
	admin        client.WithWatch
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	ctrl.SetLogger(logr.Discard()) // what the controllers log is of no interest
	dir, err := os.MkdirTemp("", "pergola-job-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if controlPlane, err = testenv.StartControlPlane(context.Background(), dir); err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := controlPlane.Stop(); err == nil {
			err = stopErr
		}
	}()
	scheme, err := testenv.Scheme()
	if err != nil {
		return 1, err
	}
	if admin, err = client.NewWithWatch(controlPlane.Config, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
