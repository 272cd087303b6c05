package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// How long a part of the cluster may take to come up. A loaded machine takes
// ten times as long as an idle one.
const (
	startTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// Up starts the cluster and returns when it is of use: the API server is
// ready, the default service account is there, and the node, if any, is ready.
// The programs stay when the caller ends. It does nothing if the cluster is up
// already; if Up fails, nothing stays but the logs.
func (c *Cluster) Up(ctx context.Context, options Options) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return fmt.Errorf("create the cluster's directory: %w", err)
	}
	return c.locked(ctx, func() error {
		if err := c.claim(); err != nil {
			return err
		}
		s, err := c.load()
		if err == nil {
			return c.checkUp(s, options)
		}
		if !errors.Is(err, errNoCluster) {
			return err
		}
		return c.start(ctx, options)
	})
}

// checkUp returns nil if the cluster is up and is what the options ask for.
func (c *Cluster) checkUp(s state, want Options) error {
	for _, name := range s.programs() {
		if err := c.table.Check(name); err != nil {
			return fmt.Errorf("the cluster in %s is up in part only; take it down first: %w", c.dir, err)
		}
	}
	if s.Node != want.Node {
		return fmt.Errorf("the cluster in %s is up %s; take it down first", c.dir,
			map[bool]string{true: "with a node", false: "without a node"}[s.Node])
	}
	c.say("the cluster in %s is up already", c.dir)
	return nil
}

func (c *Cluster) start(ctx context.Context, options Options) error {
	started := time.Now()
	err := c.startAll(ctx, options)
	if err != nil {
		// Cleaning up must not be cut short by what cut the start short.
		return errors.Join(err, c.clear(context.WithoutCancel(ctx)))
	}
	c.say("up in %.1fs", time.Since(started).Seconds())
	return nil
}

func (c *Cluster) startAll(ctx context.Context, options Options) error {
	// An Up that was killed may have left programs but no state.
	if err := c.clear(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(c.table.Logs); err != nil {
		return fmt.Errorf("remove the last logs: %w", err)
	}
	for _, dir := range []string{c.table.Records, c.table.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create the cluster's directory: %w", err)
		}
	}
	s := state{Options: options}
	namespaces, err := c.place(&s)
	if err != nil {
		return err
	}
	if err := c.save(s); err != nil {
		return err
	}
	if err := c.issueCredentials(s); err != nil {
		return err
	}
	access, err := c.access(s)
	if err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, s, namespaces, access); err != nil {
		return err
	}
	if options.Node {
		if err := c.startNode(ctx, s, namespaces, access); err != nil {
			return err
		}
	}
	return c.await(ctx, "default service account", []string{"kube-apiserver", "kube-controller-manager"}, func(ctx context.Context) error {
		_, err := access.get(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
		return err
	})
}

// place decides where the programs run and listen.
func (c *Cluster) place(s *state) (namespaces, error) {
	if s.Node {
		return c.createNamespaces(s)
	}
	// Listening on all of them before closing any makes them different.
	for _, address := range []*string{&s.Server, &s.Etcd, &s.EtcdPeer} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return namespaces{}, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		*address = listener.Addr().String()
	}
	s.API = s.Server
	return namespaces{}, nil
}

// await polls until the condition returns nil. It fails when one of the
// programs the condition depends on has ended, when time is up, and when the
// context ends. The last of the programs is the one to explain a delay.
func (c *Cluster) await(ctx context.Context, what string, programs []string, condition func(context.Context) error) error {
	waiting := ctx
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := condition(ctx)
		if err == nil {
			return nil
		}
		for _, program := range programs {
			if err := c.table.Check(program); err != nil {
				return fmt.Errorf("wait for %s: %w", what, err)
			}
		}
		select {
		case <-waiting.Done():
			return fmt.Errorf("wait for %s: %w", what, waiting.Err())
		case <-ctx.Done():
			return c.table.Explain(programs[len(programs)-1],
				fmt.Errorf("wait for %s: not after %s: %w", what, startTimeout, err))
		case <-ticker.C:
		}
	}
}
