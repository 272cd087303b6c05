// Package cluster builds Kubernetes' programs, and starts and stops clusters of them on this machine. All data of a
// cluster is below one directory.
//
// A cluster is a control plane that listens on free ports of the loopback address; any number of them run at once, for
// any user. With a node it needs root, and everything runs in network and mount namespaces of its own: what the node
// does to interfaces, routes, packet filters and mounts, the machine does not see, and it is gone when the last
// process is. Only the API server is passed on to a port of the machine's loopback address.
package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// stateFile says that a directory, with all that is in it, is a cluster's and may be removed. It keeps --dir=/var
	// from being a disaster.
	stateFile      = "cluster.json"
	kubeconfigFile = "kubeconfig"
	logDir         = "log"
)

// The programs of a cluster, without and with a node.
var (
	controlPlane = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	nodePrograms = []string{namespaceHolder, "containerd", kubelet, "kube-proxy"}
)

// errNoCluster is the error for a directory that is not a cluster's, or whose cluster is not up.
var errNoCluster = errors.New("no cluster is up there")

// validName guards what is killed and removed by the cluster's name.
var validName = regexp.MustCompile(`^pergola-[0-9a-z]{8}$`)

// Cluster is a cluster's place, whether it is up or not.
type Cluster struct {
	state

	dir string
	log io.Writer
	// holder is the process in whose namespaces the programs run; 0 for the machine's own.
	holder int
}

// state is what is in stateFile.
type state struct {
	// Name is unique to the cluster, for what it has outside of its directory. It holds out when the directory is
	// moved.
	Name string
	// Programs is the directory of the Kubernetes programs and pause. It is empty for a cluster that is not up.
	Programs string `json:",omitempty"`
	// Node says that it has a node that runs pods.
	Node bool `json:",omitempty"`
}

// At returns the cluster whose data is in the directory, which need not exist. What it does is reported to log.
func At(dir string, log io.Writer) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the cluster's directory: %w", err)
	}
	return &Cluster{dir: dir, log: log}, nil
}

// Kubeconfig returns the path of the file by which the cluster's administrator reaches it while it is up.
func (c *Cluster) Kubeconfig() string { return c.path(kubeconfigFile) }

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (c *Cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.log, format+"\n", args...)
}

// load reads the state. The error is errNoCluster if the directory is not a cluster's.
func (c *Cluster) load() error {
	content, err := os.ReadFile(c.path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return errNoCluster
	}
	if err != nil {
		return fmt.Errorf("read the cluster's state: %w", err)
	}
	var s state
	if err := json.Unmarshal(content, &s); err != nil {
		return fmt.Errorf("parse %s: %w", c.path(stateFile), err)
	}
	if !validName.MatchString(s.Name) {
		return fmt.Errorf("%s does not hold the name of a cluster", c.path(stateFile))
	}
	c.state = s
	return nil
}

func (c *Cluster) save(s state) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	c.state = s
	return c.write(stateFile, append(content, '\n'))
}

// claim makes the directory the cluster's, which it can be if it is empty or the cluster's already, and reads the
// state.
func (c *Cluster) claim() error {
	err := c.load()
	if !errors.Is(err, errNoCluster) {
		return err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("read the cluster's directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s holds files that are not a cluster's: choose a new or an empty directory", c.dir)
	}
	return c.save(state{Name: "pergola-" + strings.ToLower(rand.Text()[:8])})
}

// locked calls do while no other process starts or stops this cluster. The error is errNoCluster if it has no
// directory, or no longer.
func (c *Cluster) locked(ctx context.Context, do func() error) error {
	unlock, err := lock(ctx, c.dir, func() {
		c.say("another process works on the cluster in %s; waiting for it", c.dir)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return errNoCluster
	}
	if err != nil {
		return err
	}
	defer unlock()
	return do()
}

// write writes a file of the cluster's directory, for its owner's eyes only.
func (c *Cluster) write(name string, content []byte) error {
	path := c.path(filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Down stops what Up started and removes the cluster's data. A cluster that is not up is not an error.
func (c *Cluster) Down(ctx context.Context) error {
	started := time.Now()
	err := c.locked(ctx, func() error {
		if err := c.load(); err != nil {
			return err
		}
		if err := c.stop(ctx); err != nil {
			return err
		}
		if err := os.RemoveAll(c.dir); err != nil {
			return fmt.Errorf("remove the cluster's data: %w", err)
		}
		return nil
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

// stop ends every process, and removes what the cluster has outside of its directory. If it fails the data stays, by
// which the next one finds what is left.
func (c *Cluster) stop(ctx context.Context) error {
	if err := c.kill(ctx); err != nil {
		return err
	}
	return c.removeCgroups(ctx)
}

// clear stops the cluster and removes its data, the logs apart.
func (c *Cluster) clear(ctx context.Context) error {
	if err := c.stop(ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("read the cluster's directory: %w", err)
	}
	for _, entry := range entries {
		if slices.Contains([]string{stateFile, logDir}, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(c.path(entry.Name())); err != nil {
			return fmt.Errorf("remove the cluster's data: %w", err)
		}
	}
	return c.save(state{Name: c.Name})
}
