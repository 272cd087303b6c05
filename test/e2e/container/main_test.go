package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	// helperImage and stepImage are on the node. Nobody can pull them.
	helperImage = "localhost/pergola-container-helper:1"
	stepImage   = "localhost/step:1"
	// patience bounds how long a test waits for something that must happen. It is shorter than the five minutes after which a job is looked
	// at again that nothing has woken, so no test passes by that.
	patience = 3 * time.Minute
)

// The cluster of this package, and its administrator.
var (
	node  *testenv.Node
	admin client.WithWatch
	// kubeconfig is the host's, which is no administrator.
	kubeconfig string
	binaries   string
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	os.Exit(testenv.RunOnNode(tests{m}, nil, prepare))
}

// tests are those of this package, which stop in the end what they have shared.
type tests struct{ *testing.M }

func (t tests) Run() (code int) {
	code = t.M.Run()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := stopShared(ctx, code != 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// prepare installs what the tests need on the node's cluster.
func prepare(ctx context.Context, its *testenv.Node, dir string) (err error) {
	node = its
	if binaries, err = testenv.Binaries(); err != nil {
		return err
	}
	if admin, err = node.Client(); err != nil {
		return err
	}
	definitions, err := testenv.Definitions()
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(node.Config, envtest.CRDInstallOptions{CRDs: definitions}); err != nil {
		return fmt.Errorf("install the definitions of Pergola: %w", err)
	}
	content, err := applyRights(ctx)
	if err != nil {
		return err
	}
	kubeconfig = filepath.Join(dir, "host.kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := node.Image(ctx, helperImage, "./plugins/container/helper"); err != nil {
		return err
	}
	return node.Image(ctx, stepImage, "./test/images/step")
}
