package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// The images of the container example, which nobody can pull.
const helperImage, stepImage = "localhost/pergola-container-helper:1", "localhost/step:1"

// node is a cluster with a node that comes up while something else is shown. The zero value has not started.
type node struct {
	progress gate
	done     chan struct{} // closed when the rest is set; nil before start
	cluster  *testenv.Node
	err      error
}

// start begins to build what the node needs and to start it, with files below dir, until ctx ends.
func (n *node) start(ctx context.Context, dir string) {
	n.done = make(chan struct{})
	go func() {
		defer close(n.done)
		if install := os.Getenv("DEMO_NODE_PACKAGES"); install != "" {
			cmd := shell(ctx, testenv.Root(), os.Environ(), install)
			cmd.Stdout, cmd.Stderr = &n.progress, &n.progress
			_ = cmd.Run() // what is lacking afterwards, the start says
		}
		if n.cluster, n.err = testenv.StartNode(ctx, filepath.Join(dir, "node"), &n.progress); n.err != nil {
			return
		}
		n.err = errors.Join(n.cluster.Image(ctx, helperImage, "./plugins/container/helper"),
			n.cluster.Image(ctx, stepImage, "./test/images/step"))
	}()
}

// wait returns the kubeconfig of the cluster when it is up. Until then it shows how far that is.
func (n *node) wait() (kubeconfig string, err error) {
	select {
	case <-n.done:
	default:
		say("\nWaiting for another cluster, with a node for Pods, which is being built and started.")
		n.progress.open.Store(true)
		<-n.done
	}
	if n.err != nil {
		return "", n.err
	}
	say("\nAnother cluster is up, with a node for Pods.")
	return n.cluster.Kubeconfig(), nil
}

// stop waits until the start is over, and stops the cluster if it is up.
func (n *node) stop(ctx context.Context) error {
	if n.done == nil {
		return nil
	}
	if <-n.done; n.cluster == nil {
		return nil
	}
	return n.cluster.Stop(ctx)
}

// gate drops what is written before it is open, and shows the rest.
type gate struct{ open atomic.Bool }

func (g *gate) Write(p []byte) (int, error) {
	if !g.open.Load() {
		return len(p), nil
	}
	return os.Stderr.Write(p)
}
