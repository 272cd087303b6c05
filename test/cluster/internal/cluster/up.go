package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// startTimeout is how long a part of the cluster may take to come up. A loaded machine takes ten times as long as an
// idle one.
const startTimeout = 2 * time.Minute

// addresses are where the programs of a cluster listen.
type addresses struct {
	// server is where the API server listens, and api is where it is reached from the machine. They differ if the
	// cluster has namespaces.
	server, api    string
	etcd, etcdPeer string
}

// Up starts the cluster, with a node if one is wanted, and returns when it is of use: the API server is ready, the
// default service account is there, and the node, if any, is ready. The programs stay when the caller ends. It does
// nothing if the cluster is up already; if Up fails, nothing stays but the logs.
func (c *Cluster) Up(ctx context.Context, programs string, node bool) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("create the cluster's directory: %w", err)
	}
	return c.locked(ctx, func() error {
		if err := c.claim(); err != nil {
			return err
		}
		if c.Programs != "" {
			return c.checkUp(node)
		}
		started := time.Now()
		if err := c.startAll(ctx, programs, node); err != nil {
			// Cleaning up must not be cut short by what cut the start short.
			return errors.Join(err, c.clear(context.WithoutCancel(ctx)))
		}
		c.say("up in %.1fs", time.Since(started).Seconds())
		return nil
	})
}

// checkUp returns nil if the cluster is up and is what is asked for.
func (c *Cluster) checkUp(node bool) error {
	names := controlPlane
	if c.Node {
		names = slices.Concat(controlPlane, nodePrograms)
	}
	if err := c.check(names...); err != nil {
		return fmt.Errorf("the cluster in %s is up in part only; take it down first: %w", c.dir, err)
	}
	if c.Node != node {
		return fmt.Errorf("the cluster in %s is up %s; take it down first", c.dir,
			map[bool]string{true: "with a node", false: "without a node"}[c.Node])
	}
	c.say("the cluster in %s is up already", c.dir)
	return nil
}

func (c *Cluster) startAll(ctx context.Context, programs string, node bool) error {
	// An Up that was killed may have left programs.
	if err := c.clear(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(c.path(logDir)); err != nil {
		return fmt.Errorf("remove the last logs: %w", err)
	}
	if err := os.Mkdir(c.path(logDir), 0o755); err != nil {
		return fmt.Errorf("create the logs' directory: %w", err)
	}
	if err := c.save(state{Name: c.Name, Programs: programs, Node: node}); err != nil {
		return err
	}
	place := c.freePorts
	if node {
		place = c.createNamespaces
	}
	at, err := place()
	if err != nil {
		return err
	}
	if err := c.issueCredentials(at); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, at); err != nil {
		return err
	}
	if node {
		if err := c.startNode(ctx); err != nil {
			return err
		}
	}
	return c.await(ctx, "default service account", []string{"kube-apiserver", "kube-controller-manager"},
		"get", "--raw", "/api/v1/namespaces/default/serviceaccounts/default")
}

// freePorts finds where the programs of a cluster without namespaces can listen.
func (c *Cluster) freePorts() (at addresses, err error) {
	// Listening on all of them before closing any makes them different.
	for _, address := range []*string{&at.server, &at.etcd, &at.etcdPeer} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return at, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		*address = listener.Addr().String()
	}
	at.api = at.server
	return at, nil
}

// await calls kubectl until it succeeds. It fails when one of the programs has ended that this depends on, when time
// is up, and when the context ends. The last of the programs is the one to explain a delay.
func (c *Cluster) await(ctx context.Context, what string, programs []string, kubectl ...string) error {
	var ended error
	err := poll(ctx, startTimeout, func() error {
		if ended = c.check(programs...); ended != nil {
			return nil
		}
		return run(exec.CommandContext(ctx, filepath.Join(c.Programs, "kubectl"), append([]string{
			"--kubeconfig=" + c.Kubeconfig(), "--cache-dir=" + c.path("cache"), "--request-timeout=5s",
		}, kubectl...)...))
	})
	if ended != nil {
		return fmt.Errorf("wait for %s: %w", what, ended)
	}
	if err != nil {
		return c.explain(programs[len(programs)-1], fmt.Errorf("wait for %s: %w", what, err))
	}
	return nil
}

// run runs a command to its end.
func run(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}
