package registration

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// The control plane of this package, and its administrator. Registrations belong to the whole cluster, so tests run one after the other.
var (
	controlPlane *testenv.ControlPlane
	admin        client.WithWatch
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // watches that are cut off say so
	os.Exit(testenv.RunTests(m, func(c *testenv.ControlPlane) (err error) {
		controlPlane = c
		admin, err = c.Client()
		return err
	}))
}
