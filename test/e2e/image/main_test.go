package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	// patience bounds how long a test waits for something that must happen.
	patience = 3 * time.Minute

	// hostImage is what the archive calls itself.
	hostImage = "localhost/pergola:0.0.0-test"
)

// The cluster of this package.
var (
	node  *testenv.Node
	admin client.WithWatch
	pods  kubernetes.Interface
	// work is where the commands of the page are run.
	work string
	// noexec is a directory of the node where nothing can be run; empty if none could be made.
	noexec string
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	os.Exit(testenv.RunOnNode(m, beforeNode, prepare))
}

// built is the path of something that `make test-image` makes.
func built(path ...string) string {
	return filepath.Join(append([]string{testenv.Root(), "bin"}, path...)...)
}

// beforeNode lets the node have a container runtime that has volumes made of images, and a file system from which nothing can be run.
func beforeNode(dir string) (after func() error, err error) {
	for _, path := range []string{built("tools", "containerd", "containerd"), built("tools", "helm"), built("test-image", "pergola.tar")} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("run `make test-image`, or `make test` for everything: %w", err)
		}
	}
	if err := os.Setenv("PATH", built("tools", "containerd")+":"+os.Getenv("PATH")); err != nil {
		return nil, err
	}
	return mountNoexec(filepath.Join(dir, "noexec"))
}

// mountNoexec mounts a file system from which nothing can be run. It does so before there is a node, which takes a copy of all mounts.
func mountNoexec(dir string) (unmount func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOEXEC, "size=64m"); err != nil {
		return func() error { return nil }, nil //nolint:nilerr // who may not mount cannot run a node either
	}
	noexec = dir
	return func() error { return unix.Unmount(dir, unix.MNT_DETACH) }, nil
}

// prepare installs what the tests need on the node's cluster: definitions, rights and the images.
func prepare(ctx context.Context, its *testenv.Node, dir string) (err error) {
	node = its
	if admin, err = node.Client(); err != nil {
		return err
	}
	if pods, err = kubernetes.NewForConfig(node.Config); err != nil {
		return fmt.Errorf("create client of the node's cluster: %w", err)
	}
	definitions, err := testenv.Definitions()
	if err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(node.Config, envtest.CRDInstallOptions{CRDs: definitions}); err != nil {
		return fmt.Errorf("install the definitions of Pergola: %w", err)
	}
	rights, err := testenv.Objects("docs/host-rights.yaml")
	if err != nil {
		return err
	}
	for _, object := range rights {
		if object.GetKind() == "Namespace" {
			object.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		}
		if err := admin.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	if err := node.Import(ctx, built("test-image", "pergola.tar")); err != nil {
		return err
	}
	work = filepath.Join(dir, "work")
	return prepareWork(ctx)
}
