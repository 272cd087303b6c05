package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// createCgroups creates, in every hierarchy of cgroups, the cluster's own group, below which the kubelet puts the
// pods'.
func (c *Cluster) createCgroups() error {
	groups, err := c.cgroups()
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := enableControllers(filepath.Dir(group)); err != nil {
			return err
		}
		if err := os.MkdirAll(group, 0o755); err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
	}
	return nil
}

// enableControllers makes every resource controller of a version 2 hierarchy work in the groups below its root.
// Version 1 has no such choice.
func enableControllers(root string) error {
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read cgroup controllers: %w", err)
	}
	for _, controller := range strings.Fields(string(controllers)) {
		control := filepath.Join(root, "cgroup.subtree_control")
		if err := os.WriteFile(control, []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("enable cgroup controller %s: %w", controller, err)
		}
	}
	return nil
}

// cgroups returns the cluster's group in every hierarchy, existing or not.
func (c *Cluster) cgroups() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("find cgroups: %w", err)
	}
	var groups []string
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		const mountPoint, fileSystem = 1, 2
		if len(fields) > fileSystem && (fields[fileSystem] == "cgroup" || fields[fileSystem] == "cgroup2") {
			groups = append(groups, filepath.Join(fields[mountPoint], c.Name))
		}
	}
	return groups, nil
}

// removeCgroups removes the groups and those below them, the deepest first. Their files are the kernel's and go with
// them. A group is busy for a moment after its last process has ended.
func (c *Cluster) removeCgroups(ctx context.Context) error {
	groups, err := c.cgroups()
	if err != nil {
		return err
	}
	return poll(ctx, killTimeout, func() error {
		for _, group := range groups {
			var dirs []string
			err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return err
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("find cgroups: %w", err)
			}
			for _, dir := range slices.Backward(dirs) {
				if err := os.Remove(dir); err != nil {
					return fmt.Errorf("remove cgroup: %w", err)
				}
			}
		}
		return nil
	})
}
