package cluster

import (
	"context"
	"errors"
	"slices"
	"time"
)

// grace is how long a program may take to end when asked. Nothing is lost by
// SIGKILL: the cluster's data is about to be removed.
const grace = 3 * time.Second

// Down stops what Up started and removes the cluster's data. A cluster that is
// not up is not an error.
func (c *Cluster) Down(ctx context.Context) error {
	started := time.Now()
	err := c.locked(ctx, func() error {
		if err := c.identify(); err != nil {
			return err
		}
		if err := c.stopAll(ctx); err != nil {
			return err
		}
		return c.remove()
	})
	if errors.Is(err, errNoCluster) {
		c.say("no cluster in %s", c.dir)
		return nil
	}
	if err != nil {
		return err
	}
	c.say("down in %.1fs", time.Since(started).Seconds())
	return nil
}

// clear stops every program and then removes the data, the logs apart. If a
// program does not stop, the data stays: the program's record is among it.
func (c *Cluster) clear(ctx context.Context) error {
	if err := c.stopAll(ctx); err != nil {
		return err
	}
	return c.empty()
}

// stopAll stops every program that is recorded, the latest first. The pods
// have their turn when nothing is left that would start them again.
func (c *Cluster) stopAll(ctx context.Context) error {
	for _, name := range slices.Backward(nodePrograms) {
		if err := c.table.Stop(ctx, name, grace); err != nil {
			return err
		}
	}
	if err := c.stopPods(ctx); err != nil {
		return err
	}
	for _, name := range slices.Backward(controlPlane) {
		if err := c.table.Stop(ctx, name, grace); err != nil {
			return err
		}
	}
	return c.table.Stop(ctx, namespaceHolder, grace)
}
