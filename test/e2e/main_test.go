package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// The control plane of this package, and its administrator.
var (
	controlPlane *testenv.ControlPlane
	admin        client.Client
	binaries     string
	// hostKubeconfig is that of the hosts, which may do what the documentation and the chart allow them and nothing
	// else.
	hostKubeconfig string
)

// patience bounds how long a test waits for something that must happen.
const patience = time.Minute

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

// pluginDir returns a new directory with the named plugins.
func pluginDir(t *testing.T, plugins ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range plugins {
		addPlugin(t, dir, name, name)
	}
	return dir
}

// addPlugin puts a plugin into a directory under a file name.
func addPlugin(t *testing.T, dir, plugin, file string) {
	t.Helper()
	for _, from := range []string{"plugins", "test"} {
		path := filepath.Join(binaries, from, plugin)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if err := testenv.AddPlugin(path, dir, file); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("there is no plugin %q in %s", plugin, binaries)
}
