package standalone

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the controllers log is of no interest
	os.Exit(m.Run())
}

// api is an API server and what the tests do with it in somebody else's name.
type api struct {
	t      *testing.T
	admin  client.WithWatch
	config *rest.Config // nil for a fake one
}

// newFakeAPI returns a fake API server of a test's own.
func newFakeAPI(t *testing.T) *api {
	t.Helper()
	admin, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	return &api{t: t, admin: admin}
}

// newServerAPI returns the real API server, for tests of managers, which have informers. With -short the test is
// skipped.
func newServerAPI(t *testing.T) *api {
	t.Helper()
	plane, admin := testenv.ForTest(t)
	return &api{t: t, admin: admin, config: plane.Config}
}
