// Package cluster starts and stops Kubernetes clusters of programs on this
// machine. All data of a cluster is below one directory.
//
// A cluster is a control plane that listens on free ports of the loopback
// address; any number of them run at once, for any user. With a node it needs
// root, and everything runs in network and mount namespaces of its own: what
// the node does to interfaces, routes, packet filters and mounts, the machine
// does not see, and it is gone when the last process is. Only the API server
// is passed on to a port of the machine's loopback address.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pergola-deploy/pergola/test/cluster/internal/filelock"
	"github.com/pergola-deploy/pergola/test/cluster/internal/process"
)

// The programs of a cluster, in the order they start in.
var (
	controlPlane = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	nodePrograms = []string{"containerd", kubelet, "kube-proxy"}
)

// Cluster is a cluster's place, whether it is up or not.
type Cluster struct {
	dir   string
	log   io.Writer
	table process.Table
	// name is unique to the cluster, for what it has outside of its directory.
	// It is known once the directory has been claimed or identified.
	name string
}

// Options say what Up starts.
type Options struct {
	// Programs is the directory of the Kubernetes programs and pause.
	Programs string
	// Node adds a node that runs pods.
	Node bool
}

// state is what Up decided, for Down, Import and the next Up.
type state struct {
	Options
	// Server is where the API server listens, and API is where it is reached
	// from the machine. They differ if the cluster has namespaces of its own.
	Server, API string
	// Etcd and EtcdPeer are where etcd listens.
	Etcd, EtcdPeer string
}

// At returns the cluster whose data is in the directory, which need not exist.
// What it does is reported to log.
func At(dir string, log io.Writer) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the cluster's directory: %w", err)
	}
	c := &Cluster{dir: dir, log: log}
	c.table = process.Table{Records: c.path("run"), Logs: c.path("log")}
	return c, nil
}

// Kubeconfig returns the path of the file by which the cluster's administrator
// reaches it while it is up.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (s state) programs() []string {
	if !s.Node {
		return controlPlane
	}
	return append(append([]string{namespaceHolder}, controlPlane...), nodePrograms...)
}

// load returns the state of a cluster that is up, or should be. The error is
// errNoCluster if there is none.
func (c *Cluster) load() (state, error) {
	content, err := os.ReadFile(c.path("cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, errNoCluster
	}
	if err != nil {
		return state{}, fmt.Errorf("read the cluster's state: %w", err)
	}
	var s state
	if err := json.Unmarshal(content, &s); err != nil {
		return state{}, fmt.Errorf("parse %s: %w", c.path("cluster.json"), err)
	}
	return s, nil
}

func (c *Cluster) save(s state) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return c.write("cluster.json", append(content, '\n'))
}

// locked calls do while no other process starts or stops this cluster. The
// error is errNoCluster if it has no directory, or no longer.
func (c *Cluster) locked(ctx context.Context, do func() error) error {
	lock, err := filelock.Acquire(ctx, c.dir, func() {
		c.say("another process works on the cluster in %s; waiting for it", c.dir)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return errNoCluster
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	return do()
}

func (c *Cluster) say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.log, format+"\n", args...)
}

// node returns the state of a cluster that is up with a node, or should be.
func (c *Cluster) node() (state, error) {
	if err := c.identify(); err != nil {
		return state{}, err
	}
	s, err := c.load()
	if err == nil && !s.Node {
		err = errors.New("the cluster is up without a node")
	}
	return s, err
}

// Import loads images from docker-archive files into the cluster's node.
func (c *Cluster) Import(archives []string) error {
	s, err := c.node()
	if err != nil {
		return fmt.Errorf("import images to %s: %w", c.dir, err)
	}
	namespaces, err := c.namespaces(s)
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := c.importImage(namespaces, archive); err != nil {
			return err
		}
		c.say("imported %s", archive)
	}
	return nil
}
