package testenv

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SharedKubeconfigEnv names the kubeconfig of the control plane that the tests of many packages share.
// test/testenv/run sets it.
const SharedKubeconfigEnv = "PERGOLA_TEST_KUBECONFIG"

// RunTests runs the tests of a package on the control plane that many packages share, and returns the code to exit
// with. Where there is none, it starts one for the package, without an audit log. Tests keep to namespaces of their
// own and give what has no namespace a name of its own. use takes the control plane before the first test; without it
// no test runs. It is called from TestMain with its *testing.M.
//
// In the processes of a fuzz run there is no control plane and use is not called: fuzz targets do without. With -short
// no test runs.
func RunTests(tests interface{ Run() int }, use func(*ControlPlane) error) (code int) {
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "skipped: the tests of this package need a control plane")
		return 0
	}
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		return tests.Run()
	}
	return runOn(tests, use, sharedControlPlane)
}

// RunTestsAlone runs the tests of a package on a control plane of their own, which they may restart, whose audit log
// they may read, and on which they may let hosts work on the items of all namespaces. Else it is like RunTests.
func RunTestsAlone(tests interface{ Run() int }, use func(*ControlPlane) error) (code int) {
	return runOn(tests, use, func(dir string) (*ControlPlane, error) {
		return StartControlPlane(context.Background(), dir)
	})
}

// ForTest returns the control plane that many packages share, with a client of its administrator. Where there is none,
// it starts one for the test, which is stopped at its end. With -short the test is skipped.
func ForTest(t testing.TB) (*ControlPlane, client.WithWatch) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane")
	}
	return forTest(t, sharedControlPlane)
}

// StartForTest starts a control plane for one test, at whose end it is stopped, and returns it with a client of its
// administrator.
func StartForTest(t testing.TB, options ...ControlPlaneOption) (*ControlPlane, client.WithWatch) {
	t.Helper()
	return forTest(t, func(dir string) (*ControlPlane, error) { return StartControlPlane(t.Context(), dir, options...) })
}

func forTest(t testing.TB, start func(dir string) (*ControlPlane, error)) (*ControlPlane, client.WithWatch) {
	t.Helper()
	c, err := start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	return c, admin
}

// sharedControlPlane is one that somebody else starts and stops: its Stop does nothing, and it has no audit log. Where
// there is none, one is started that keeps its files in dir.
func sharedControlPlane(dir string) (*ControlPlane, error) {
	kubeconfig := os.Getenv(SharedKubeconfigEnv)
	if kubeconfig == "" {
		return StartControlPlane(context.Background(), dir, WithoutAuditLog())
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read $%s: %w", SharedKubeconfigEnv, err)
	}
	config.QPS = -1
	return &ControlPlane{Config: config, Kubeconfig: kubeconfig}, nil
}

func runOn(
	tests interface{ Run() int }, use func(*ControlPlane) error, start func(dir string) (*ControlPlane, error),
) (code int) {
	o := &OnDemand{}
	o.start(start)
	if o.err == nil {
		o.err = use(o.plane)
	}
	if o.err == nil {
		code = tests.Run()
	}
	return exitCode(code, errors.Join(o.err, o.stop()))
}

// exitCode is the code that a test program exits with after an error, which it prints.
func exitCode(code int, err error) int {
	if err == nil {
		return code
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// OnDemand is the control plane of a package of which only some tests need one. The zero value is ready for use.
type OnDemand struct {
	once  sync.Once
	dir   string
	plane *ControlPlane
	err   error
}

// RunTests runs the tests of the package, stops the control plane if one has started, and returns the code to exit
// with. It is called from TestMain with its *testing.M.
func (o *OnDemand) RunTests(tests interface{ Run() int }) int {
	return exitCode(tests.Run(), o.stop())
}

// ForTest returns the control plane that many packages share, with a client of its administrator. Where there is none,
// it starts one for all tests of the package. With -short the test is skipped.
func (o *OnDemand) ForTest(t testing.TB) (*ControlPlane, client.WithWatch) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs a control plane")
	}
	o.once.Do(func() { o.start(sharedControlPlane) })
	if o.err != nil {
		t.Fatal(fmt.Errorf("start the control plane of the package: %w", o.err))
	}
	admin, err := o.plane.Client()
	if err != nil {
		t.Fatal(err)
	}
	return o.plane, admin
}

// start starts a control plane in a directory that outlives the test which asks for it first.
func (o *OnDemand) start(start func(dir string) (*ControlPlane, error)) {
	if o.dir, o.err = os.MkdirTemp("", "pergola-test-"); o.err == nil {
		o.plane, o.err = start(o.dir)
	}
}

func (o *OnDemand) stop() (err error) {
	if o.plane != nil {
		err = o.plane.Stop()
	}
	return errors.Join(err, os.RemoveAll(o.dir)) // nothing without a directory
}
