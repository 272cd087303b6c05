package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNoNode is the error of StartNode on a machine that cannot run a node; its text says what it lacks.
var ErrNoNode = errors.New("this machine cannot run a node")

// Workload is the image of test/cluster/workload, which each Node has. No registry does, so pods must not pull it.
const Workload = "localhost/workload:1"

// Node is a cluster of its own, by test/cluster, with all the controllers of Kubernetes and a node that runs pods.
type Node struct {
	// Config of its administrator.
	Config *rest.Config

	program string // of test/cluster
	dir     string // of the cluster
	files   string // for what else is written
}

// StartNode starts a cluster with a node that keeps its files in dir, which must be empty. It must be stopped. The error is ErrNoNode if
// root or a package is missing, and another one if nothing is missing and the node does not come up.
func StartNode(ctx context.Context, dir string) (*Node, error) {
	n := &Node{program: filepath.Join(dir, "program"), dir: filepath.Join(dir, "cluster"), files: dir}
	if err := build(ctx, clusterModule(), ".", n.program); err != nil {
		return nil, err
	}
	lack, err := n.run(ctx, "requirements")
	if err != nil {
		return nil, err
	}
	if lack != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoNode, lack)
	}
	// It takes down what it has started if it fails.
	if _, err := n.run(ctx, "up", "--node", "--dir", n.dir); err != nil {
		return nil, err
	}
	if err := n.prepare(ctx); err != nil {
		return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
	}
	return n, nil
}

func (n *Node) prepare(ctx context.Context) (err error) {
	if n.Config, err = clientcmd.BuildConfigFromFlags("", n.Kubeconfig()); err != nil {
		return fmt.Errorf("read kubeconfig of the node's cluster: %w", err)
	}
	n.Config.QPS = -1
	return n.image(ctx, Workload, clusterModule(), "./workload")
}

// Stop stops the cluster with all pods and removes its files. Nothing of it is left on the machine then.
func (n *Node) Stop(ctx context.Context) error {
	_, err := n.run(ctx, "down", "--dir", n.dir)
	return err
}

// Kubeconfig is a file with the administrator's kubeconfig.
func (n *Node) Kubeconfig() string { return filepath.Join(n.dir, "kubeconfig") }

// Client returns a client of the administrator that knows Kubernetes' own types.
func (n *Node) Client() (client.WithWatch, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	cl, err := client.NewWithWatch(n.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create client of the node's cluster: %w", err)
	}
	return cl, nil
}

// run runs a command of test/cluster and returns what it prints.
func (n *Node) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, n.program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s the node's cluster: %w\n%s", args[0], err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}
