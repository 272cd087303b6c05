package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	// patience bounds how long a test waits for something that must happen.
	patience = 5 * time.Minute

	// The versions of the image. The second one has another program of the host.
	version, nextVersion = "0.0.0-test", "0.0.1-next"
	// stepImage is the image of the container example, and counterImage that of a third-party plugin, which counts what it is called for.
	stepImage, counterImage = "localhost/step:1", "localhost/counter:1"
)

// The cluster of this package, and its administrator.
var (
	node       *testenv.Node
	admin      client.WithWatch
	kubeconfig string
	// evidence is a directory of the machine in which the plugin counter keeps what it is called for.
	evidence string
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	os.Exit(testenv.RunOnNode(m, nil, prepare))
}

// prepare brings the images to the node, and makes a place for evidence.
func prepare(ctx context.Context, its *testenv.Node, dir string) (err error) {
	node = its
	if admin, err = node.Client(); err != nil {
		return err
	}
	kubeconfig = node.Kubeconfig()
	images := built("test-image")
	next, err := nextImage(ctx, dir)
	if err != nil {
		return err
	}
	for _, archive := range []string{filepath.Join(images, "pergola.tar"), filepath.Join(images, "container-helper.tar"), next} {
		if err := node.Import(ctx, archive); err != nil {
			return err
		}
	}
	if err := errors.Join(node.Image(ctx, stepImage, "./test/images/step"), node.Image(ctx, counterImage, "./test/plugins/counter")); err != nil {
		return err
	}
	evidence = filepath.Join(dir, "evidence")
	if err := errors.Join(os.Mkdir(evidence, 0o700), os.Chmod(evidence, 0o777), os.Chmod(dir, 0o755)); err != nil { // for the user of the Pods
		return fmt.Errorf("create directory for evidence: %w", err)
	}
	return nil
}

// built is the path of something that `make test-image` makes.
func built(path ...string) string {
	return filepath.Join(append([]string{testenv.Root(), "bin"}, path...)...)
}

// nextImage assembles the image once more, with a host of another version.
func nextImage(ctx context.Context, dir string) (archive string, err error) {
	programs := filepath.Join(dir, "programs")
	if err := os.CopyFS(programs, os.DirFS(built("test-image", "programs"))); err != nil {
		return "", fmt.Errorf("copy programs; `make test-image` builds them: %w", err)
	}
	host := filepath.Join(programs, "linux", runtime.GOARCH, "pergola")
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=" + nextVersion, "-o", host, "./host/cmd/pergola"},
		{
			"go", "run", "./host/image", "--programs", programs, "--platforms", "linux/" + runtime.GOARCH, "--out", filepath.Join(dir, "next"),
			"--version", nextVersion, "--revision", "next", "--created", "0",
		},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir, cmd.Env = testenv.Root(), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("assemble the next version: %w\n%s", err, out)
		}
	}
	return filepath.Join(dir, "next", "pergola.tar"), nil
}
