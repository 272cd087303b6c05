package charts

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// admin is the administrator of the control plane of this package, with adminConfig, and binaries the directory with
// the programs under test.
var (
	admin       client.Client
	adminConfig *rest.Config
	binaries    string
)

// patience bounds how long a command may take, on a machine that may be busy.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	os.Exit(testenv.RunTests(m, func(c *testenv.ControlPlane) (err error) {
		if binaries, err = testenv.Binaries(); err != nil {
			return err
		}
		adminConfig = c.Config
		admin, err = c.Client()
		return err
	}))
}
