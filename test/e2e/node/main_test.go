package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
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
	// hostImage and helperImage are those that users get; hello is an image with the plugin that authors begin with,
	// by the name that it has in the docs, and stepImage is that of container items. All are on the node. Nobody can
	// pull them.
	hostImage, helperImage = "localhost/pergola:0.0.0-test", "localhost/container-helper:0.0.0-test"
	helloImage             = "registry.example.org/you/hello:v1.0.0"
	stepImage              = "localhost/step:1"
	// patience bounds how long a test waits for something that must happen. It is shorter than the five minutes after
	// which a job is looked at again that nothing has woken, so no test passes by that.
	patience = 3 * time.Minute
)

// The names of the documentation: the namespace and the ServiceAccount of the host, and those of the container
// deployer.
const (
	hostNamespace, hostAccount   = "pergola-system", "pergola"
	podNamespace, grantedAccount = "pergola-pods", "container"
)

// The cluster of this package, and its administrator.
var (
	node  *testenv.Node
	admin client.WithWatch
	// kubeconfig is the host's, which is no administrator.
	kubeconfig string
	binaries   string
	// marks is a directory of the node into which containers write that they have run; see the action mark of the
	// image.
	marks string
)

// startTimeout is how long the cluster may take to come up and to be prepared, and to go, on a machine that is busy
// with something else.
const startTimeout = 5 * time.Minute

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	flag.Parse()
	// Tests of Pods wait for most of their time.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err) //nolint:forbidigo // each test program has the flag
	}
	if testing.Short() {
		fmt.Fprintln(os.Stderr, "skipped: a node takes its time")
		return
	}
	code, err := runOnNode(m)
	if errors.Is(err, testenv.ErrNoNode) {
		fmt.Fprintln(os.Stderr, "skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// runOnNode runs the tests on a cluster with a node of their own, whose container runtime has volumes made of images.
func runOnNode(m *testing.M) (code int, err error) {
	for _, file := range []string{"tools/containerd/containerd", "tools/helm", "test-image/pergola.tar"} {
		if _, err := os.Stat(built(file)); err != nil {
			return 1, fmt.Errorf("run `make test-image`, or `make test` for everything: %w", err)
		}
	}
	if err := os.Setenv("PATH", built("tools", "containerd")+":"+os.Getenv("PATH")); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		return 1, fmt.Errorf("create directory of the node: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if node, err = testenv.StartNode(ctx, dir+"/node", io.Discard); err != nil {
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
	return m.Run(), nil
}

// built is the path of something that `make test-image` makes.
func built(path ...string) string {
	return filepath.Join(append([]string{testenv.Root(), "bin"}, path...)...)
}

// prepare installs what the tests need on the node's cluster: definitions, rights and images.
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
	marks = filepath.Join(dir, "marks")
	if err := errors.Join(os.Mkdir(marks, 0o700), os.Chmod(marks, 0o777)); err != nil { // for the user of the Pods
		return fmt.Errorf("create directory of marks: %w", err)
	}
	for _, image := range []string{"pergola.tar", "container-helper.tar"} {
		if err := node.Import(ctx, built("test-image", image)); err != nil {
			return err
		}
	}
	for image, program := range map[string]string{stepImage: "./test/images/step", helloImage: "./sdk/examples/hello"} {
		if err := node.Image(ctx, image, program); err != nil {
			return err
		}
	}
	return nil
}

// applyRights creates what the documentation has an operator create, and returns a kubeconfig for the host. Nobody
// has other rights in these tests.
func applyRights(ctx context.Context) ([]byte, error) {
	for _, file := range []string{testenv.HostRights, testenv.ContainerRights} {
		objects, err := testenv.Objects(file)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if err := admin.Create(ctx, object); err != nil {
				return nil, fmt.Errorf("create %s %s of %s: %w", object.GetKind(), object.GetName(), file, err)
			}
		}
	}
	return testenv.KubeconfigOf(ctx, admin, node.Config, hostNamespace, hostAccount)
}
