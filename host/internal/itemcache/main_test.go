package itemcache

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// controlPlane is for the tests that need a real API server; see newServerAPI.
var controlPlane testenv.OnDemand

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the controllers log is of no interest
	os.Exit(controlPlane.RunTests(m))
}
