package lock

import (
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
	ctrl.SetLogger(logr.Discard()) // what the manager logs is of no interest
	os.Exit(testenv.RunTests(m, func(c *testenv.ControlPlane) (err error) {
		controlPlane = c
		admin, err = c.Client()
		return err
	}))
}
