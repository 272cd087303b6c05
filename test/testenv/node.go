package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoNode is the error of StartNode on a machine that cannot run a node; its text says what it lacks.
var ErrNoNode = errors.New("this machine cannot run a node")

// Node is a cluster of its own, by test/cluster, with all the controllers of Kubernetes and a node that runs pods.
type Node struct {
	// Config of its administrator.
	Config *rest.Config

	program string // of test/cluster
	dir     string // of the cluster
}

// StartNode starts a cluster with a node that keeps its files in dir, which must be empty. It must be stopped. It
// builds what is missing, which takes minutes the first time, and reports that to progress. The error is ErrNoNode if
// root, a package or a program in $KUBEBUILDER_ASSETS is missing, and another one if nothing is missing and the node
// does not come up. Nothing of it runs any more if it fails, for the end of ctx too.
func StartNode(ctx context.Context, dir string, progress io.Writer) (*Node, error) {
	n := &Node{program: filepath.Join(dir, "program"), dir: filepath.Join(dir, "cluster")}
	if err := build(ctx, filepath.Join(Root(), "test", "cluster"), ".", n.program); err != nil {
		return nil, err
	}
	lack, err := n.run(ctx, "requirements")
	if err != nil {
		return nil, err
	}
	if lack != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoNode, lack)
	}
	if _, err := n.report(ctx, progress, "up", "--node", "--dir", n.dir); err != nil {
		return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}
	if n.Config, err = clientcmd.BuildConfigFromFlags("", n.Kubeconfig()); err != nil {
		err = fmt.Errorf("read kubeconfig of the node's cluster: %w", err)
		return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}
	n.Config.QPS = -1
	return n, nil
}

// Stop stops the cluster with all pods and removes its files. Nothing of it is left on the machine then.
func (n *Node) Stop(ctx context.Context) error {
	_, err := n.run(ctx, "down", "--dir", n.dir)
	return err
}

// Kubeconfig is a file with the administrator's kubeconfig.
func (n *Node) Kubeconfig() string { return filepath.Join(n.dir, "kubeconfig") }

// Client returns a client of the administrator that knows Kubernetes' own types and Landscaper's.
func (n *Node) Client() (client.WithWatch, error) { return newClient(n.Config) }

// Image builds a static binary of a package, such as "./test/images/step", and gives the node an image of this name
// with the binary as its entry point. Containers run it as user 65534, unless their pods say otherwise. No registry
// has the image, so pods must not pull it.
func (n *Node) Image(ctx context.Context, name, pkg string) (err error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return fmt.Errorf("make directory of image %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, archive := filepath.Join(dir, filepath.Base(pkg)), filepath.Join(dir, "image.tar")
	if err := build(ctx, Root(), pkg, binary); err != nil {
		return err
	}
	if _, err := n.run(ctx, "image", "--out", archive, "--name", name, "--user", "65534", binary); err != nil {
		return err
	}
	return n.Import(ctx, archive)
}

// Import gives the node the images of an archive: an OCI layout or a docker-archive.
func (n *Node) Import(ctx context.Context, archive string) error {
	_, err := n.run(ctx, "import", "--dir", n.dir, archive)
	return err
}

// build builds a static program of a package of a module.
func build(ctx context.Context, module, pkg, file string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", file, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, module, err, out)
	}
	return nil
}

// run runs a command of test/cluster and returns what it prints.
func (n *Node) run(ctx context.Context, args ...string) (string, error) {
	return n.report(ctx, io.Discard, args...)
}

// report is run, and reports to progress what the command says meanwhile.
func (n *Node) report(ctx context.Context, progress io.Writer, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, n.program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = io.MultiWriter(&stderr, progress)
	// Killed, it would leave what it has started.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s the node's cluster: %w\n%s", args[0], err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}
