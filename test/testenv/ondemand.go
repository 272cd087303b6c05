package testenv

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OnDemand is the control plane of a package of which only some tests need one. The zero value is ready for use.
type OnDemand struct {
	once  sync.Once
	dir   string
	plane *ControlPlane
	err   error
}

// RunTests runs the tests of the package, stops the control plane if one has started, and returns the code to exit
// with. It is called from TestMain with its *testing.M.
func (o *OnDemand) RunTests(tests interface{ Run() int }) (code int) {
	code = tests.Run()
	if o.dir == "" {
		return code
	}
	var err error
	if o.plane != nil {
		err = o.plane.Stop()
	}
	return exitCode(code, errors.Join(err, os.RemoveAll(o.dir)))
}

// ForTest returns the control plane that many packages share, with a client of its administrator. Where there is none,
// it starts one for all tests of the package. With -short the test is skipped.
func (o *OnDemand) ForTest(t testing.TB) (*ControlPlane, client.WithWatch) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane")
	}
	o.once.Do(o.start)
	if o.err != nil {
		t.Fatal(fmt.Errorf("start the control plane of the package: %w", o.err))
	}
	admin, err := o.plane.Client()
	if err != nil {
		t.Fatal(err)
	}
	return o.plane, admin
}

// start starts the control plane in a directory that outlives the test which asks for it first.
func (o *OnDemand) start() {
	if o.dir, o.err = os.MkdirTemp("", "pergola-test-"); o.err == nil {
		o.plane, o.err = sharedControlPlane(o.dir)
	}
}
