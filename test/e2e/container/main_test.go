package container

import (
	"context"
	"errors"
	"flag"
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

	// startTimeout is how long a cluster with a node may take to come up, on a machine that is busy with something else.
	startTimeout = 5 * time.Minute
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
	flag.Parse()
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "skipped: a node takes its time")
		return
	}
	code, err := run(m)
	if errors.Is(err, testenv.ErrNoNode) {
		fmt.Fprintln(os.Stderr, "skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run runs the tests on a node of their own.
func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		return 1, fmt.Errorf("create directory of the node: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if node, err = testenv.StartNode(ctx, dir); err != nil {
		return 1, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		err = errors.Join(err, node.Stop(ctx))
	}()
	if err := prepare(ctx, dir); err != nil {
		return 1, err
	}
	code = m.Run()
	ctx, cancel = context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return code, stopShared(ctx, code != 0)
}

// prepare installs what the tests need on the node's cluster.
func prepare(ctx context.Context, dir string) (err error) {
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
