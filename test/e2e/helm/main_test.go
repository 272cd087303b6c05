package helm

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// The control plane of this package, and its administrator. It is both the cluster of the items and their target. Nothing gets ready on it:
// there are neither controllers nor a node.
var (
	controlPlane *testenv.ControlPlane
	admin        client.WithWatch
	binaries     string
	// hostKubeconfig is that of the hosts, which may do what the documentation and the chart allow them and nothing else.
	hostKubeconfig string
)

// patience bounds how long a test waits for something that must happen. Many charts are deployed at once, on a machine that may be busy.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	os.Exit(testenv.RunTestsAlone(m, func(c *testenv.ControlPlane) (err error) {
		controlPlane = c
		if binaries, err = testenv.Binaries(); err != nil {
			return err
		}
		if admin, err = c.Client(); err != nil {
			return err
		}
		hostKubeconfig, err = c.HostKubeconfig(context.Background())
		return err
	}))
}
