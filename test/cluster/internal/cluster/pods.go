package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/test/cluster/internal/process"
)

// stopPodsTimeout bounds how long Down kills what pods keep starting.
const stopPodsTimeout = 10 * time.Second

// createCgroups creates, in every hierarchy of cgroups, the cluster's own
// group, below which the kubelet puts the pods'.
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

// enableControllers makes every resource controller of a version 2 hierarchy
// work in the groups below its root. Version 1 has no such choice.
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
			groups = append(groups, filepath.Join(fields[mountPoint], c.name))
		}
	}
	return groups, nil
}

// stopPods kills every process of a pod and every shim, and removes the
// cgroups. Pods outlive the kubelet and the container runtime by design.
func (c *Cluster) stopPods(ctx context.Context) error {
	groups, err := c.cgroups()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopPodsTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		// A process may start another before it is killed, and a group is
		// busy for a moment after its last process has ended.
		left, err := c.killPods(ctx, groups)
		if err != nil {
			return fmt.Errorf("kill the pods' processes: %w", err)
		}
		if left == 0 {
			err := removeCgroups(groups)
			if !errors.Is(err, syscall.EBUSY) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop pods: %d processes left: %w", left, ctx.Err())
		case <-ticker.C:
		}
	}
}

// killPods kills the pods' processes and returns how many there were.
func (c *Cluster) killPods(ctx context.Context, groups []string) (int, error) {
	pids, err := c.podProcesses(groups)
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		id, err := process.Identify(pid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if err := id.Stop(ctx, 0); err != nil {
			return 0, err
		}
	}
	return len(pids), nil
}

// podProcesses returns the processes in the groups and the shims: a shim is a
// process that was told the address of this cluster's containerd.
func (c *Cluster) podProcesses(groups []string) ([]int, error) {
	shims, err := c.shims()
	if err != nil {
		return nil, err
	}
	pids := shims
	for _, group := range groups {
		err := walkCgroups(group, func(dir string) error {
			members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			if err != nil {
				return err
			}
			for _, member := range strings.Fields(string(members)) {
				pid, err := strconv.Atoi(member)
				if err != nil {
					return err
				}
				pids = append(pids, pid)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

func (c *Cluster) shims() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	mark := []byte("\x00-address\x00" + c.containerdSocket() + "\x00")
	var shims []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// A process that has ended meanwhile has no command line to read.
		cmdline, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if bytes.Contains(cmdline, mark) {
			shims = append(shims, pid)
		}
	}
	return shims, nil
}

// removeCgroups removes the groups and those below them, the deepest first.
// Their files are the kernel's and go with them.
func removeCgroups(groups []string) error {
	for _, group := range groups {
		var dirs []string
		err := walkCgroups(group, func(dir string) error {
			dirs = append(dirs, dir)
			return nil
		})
		if err != nil {
			return fmt.Errorf("find cgroups: %w", err)
		}
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil {
				return fmt.Errorf("remove cgroup: %w", err)
			}
		}
	}
	return nil
}

// walkCgroups calls do for a group and then for those below it; there need not
// be any.
func walkCgroups(group string, do func(dir string) error) error {
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return do(path)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
