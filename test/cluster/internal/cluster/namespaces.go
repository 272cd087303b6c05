package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/pergola-deploy/pergola/test/cluster/internal/forward"
)

// namespaceHolder is the name of the process that is the first in the
// namespaces of a cluster with a node. It holds them, and passes the API
// server's connections into them.
const namespaceHolder = "namespaces"

// ForwardCommand is the sub-command by which this executable must call Forward
// with the argument that follows.
const ForwardCommand = "forward"

// listenerFD is the first file descriptor after the standard three.
const listenerFD = 3

// privateDirs are where the programs of a node keep what they do not keep
// elsewhere. In its mount namespace they are directories of the cluster.
var privateDirs = []string{
	"/run/containerd",
	"/run/netns",
	"/var/lib/cni",
	"/var/lib/containerd",
	"/var/lib/kubelet",
	"/var/log/containers",
	"/var/log/pods",
}

// kernelSettings are what the kubelet insists on and would otherwise set for
// the whole machine. In the node's mount namespace files take their place.
var kernelSettings = map[string]int{
	"/proc/sys/kernel/keys/root_maxbytes": 25_000_000,
	"/proc/sys/kernel/keys/root_maxkeys":  1_000_000,
	"/proc/sys/kernel/panic":              10,
	"/proc/sys/kernel/panic_on_oops":      1,
	"/proc/sys/vm/overcommit_memory":      1,
	"/proc/sys/vm/panic_on_oom":           0,
}

// namespaces are the network and mount namespaces the programs run in: those
// of the process holder, or the machine's own if that is 0.
type namespaces struct{ holder int }

// command returns a command that runs in the namespaces. The number of its
// process is that of the program, because what enters them becomes it.
func (n namespaces) command(argv ...string) *exec.Cmd {
	if n.holder != 0 {
		argv = append([]string{"nsenter", "--target=" + strconv.Itoa(n.holder), "--net", "--mount", "--"}, argv...)
	}
	return exec.Command(argv[0], argv[1:]...)
}

// run runs a command in the namespaces to its end.
func (n namespaces) run(argv ...string) error {
	if output, err := n.command(argv...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// namespaces returns the namespaces of a cluster that is up.
func (c *Cluster) namespaces(s state) (namespaces, error) {
	if !s.Node {
		return namespaces{}, nil
	}
	if err := c.table.Check(namespaceHolder); err != nil {
		return namespaces{}, err
	}
	id, err := c.table.Lookup(namespaceHolder)
	return namespaces{holder: id.PID}, err
}

// createNamespaces starts the holder of new namespaces and prepares them.
func (c *Cluster) createNamespaces(s *state) (namespaces, error) {
	s.Server, s.Etcd, s.EtcdPeer = net.JoinHostPort(nodeIP, "6443"), "127.0.0.1:2379", "127.0.0.1:2380"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return namespaces{}, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	s.API = listener.Addr().String()
	// A socket stays in the network namespace it was made in. This one is the
	// way in from the machine.
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return namespaces{}, fmt.Errorf("pass on listener: %w", err)
	}
	defer func() { _ = socket.Close() }()
	self, err := os.Executable()
	if err != nil {
		return namespaces{}, fmt.Errorf("find this executable: %w", err)
	}
	cmd := exec.Command(self, ForwardCommand, s.Server)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	id, err := c.table.Start(namespaceHolder, cmd)
	if err != nil {
		return namespaces{}, err
	}
	n := namespaces{holder: id.PID}
	if err := c.prepareNamespaces(n); err != nil {
		return namespaces{}, fmt.Errorf("prepare the node's namespaces: %w", err)
	}
	return n, nil
}

func (c *Cluster) prepareNamespaces(n namespaces) error {
	for _, argv := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", nodeIP + "/32", "dev", "lo"},
		// Volumes may ask for mounts that propagate, which works among shared
		// mounts only. These are shared with the pods, not with the machine.
		{"mount", "--make-rshared", "/"},
	} {
		if err := n.run(argv...); err != nil {
			return err
		}
	}
	for _, dir := range privateDirs {
		if err := c.makePrivate(n, dir); err != nil {
			return err
		}
	}
	for setting, value := range kernelSettings {
		file := "node" + setting
		if err := c.write(file, fmt.Appendln(nil, value)); err != nil {
			return err
		}
		if err := n.run("mount", "--bind", c.path(file), setting); err != nil {
			return err
		}
	}
	return nil
}

// makePrivate puts a directory of the cluster in the place of the machine's,
// which has to exist for that; an empty one stays behind.
func (c *Cluster) makePrivate(n namespaces, dir string) error {
	own := c.path("node", dir)
	for _, dir := range []string{own, dir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
	}
	return n.run("mount", "--bind", own, dir)
}

// Forward passes connections from the listener this process was started with
// on to the target until the context ends.
func Forward(ctx context.Context, target string) error {
	socket := os.NewFile(listenerFD, "listener")
	listener, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("take over listener: %w", err)
	}
	if err := socket.Close(); err != nil {
		return fmt.Errorf("take over listener: %w", err)
	}
	return forward.Serve(ctx, listener, target)
}
