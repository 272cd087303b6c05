package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// namespaceHolder is the name of the process that is the first in the
// namespaces of a cluster with a node. It holds them, and passes the API
// server's connections into them.
const namespaceHolder = "namespaces"

// ForwardCommand is the sub-command by which this executable must call Forward
// with the argument that follows.
const ForwardCommand = "forward"

const (
	// listenerFD is the first file descriptor after the standard three.
	listenerFD = 3
	// ownNamespaces are what a cluster with a node has for itself.
	ownNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET
	dialTimeout   = 10 * time.Second
)

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

// command returns a command that runs in the cluster's namespaces. The number of its process is that of the program,
// because what enters them becomes it.
func (c *Cluster) command(argv ...string) *exec.Cmd {
	if c.holder != 0 {
		argv = append([]string{"nsenter", "--target=" + strconv.Itoa(c.holder), "--net", "--mount", "--"}, argv...)
	}
	return exec.Command(argv[0], argv[1:]...)
}

// findNamespaces has command use the namespaces of a cluster that is up.
func (c *Cluster) findNamespaces() error {
	running, err := c.running()
	if err != nil {
		return err
	}
	if c.holder = running[namespaceHolder]; c.holder == 0 {
		return c.explain(namespaceHolder, errors.New("nothing holds the node's namespaces"))
	}
	return nil
}

// createNamespaces starts the holder of new namespaces and prepares them.
func (c *Cluster) createNamespaces() (addresses, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return addresses{}, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	at := addresses{
		server: net.JoinHostPort(nodeIP, "6443"), api: listener.Addr().String(), etcd: "127.0.0.1:2379",
		etcdPeer: "127.0.0.1:2380",
	}
	// A socket stays in the network namespace it was made in. This one is the way in from the machine.
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return at, fmt.Errorf("pass on listener: %w", err)
	}
	defer func() { _ = socket.Close() }()
	self, err := os.Executable()
	if err != nil {
		return at, fmt.Errorf("find this executable: %w", err)
	}
	cmd := exec.Command(self, ForwardCommand, at.server)
	cmd.Args[0] = namespaceHolder
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: ownNamespaces}
	if c.holder, err = c.start(namespaceHolder, cmd); err != nil {
		return at, err
	}
	if err := c.prepareNamespaces(); err != nil {
		return at, fmt.Errorf("prepare the node's namespaces: %w", err)
	}
	return at, nil
}

func (c *Cluster) prepareNamespaces() error {
	for _, argv := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", nodeIP + "/32", "dev", "lo"},
		// Volumes may ask for mounts that propagate, which works among shared
		// mounts only. These are shared with the pods, not with the machine.
		{"mount", "--make-rshared", "/"},
	} {
		if err := run(c.command(argv...)); err != nil {
			return err
		}
	}
	for _, dir := range privateDirs {
		if err := c.makePrivate(dir); err != nil {
			return err
		}
	}
	for setting, value := range kernelSettings {
		file := "node" + setting
		if err := c.write(file, fmt.Appendln(nil, value)); err != nil {
			return err
		}
		if err := run(c.command("mount", "--bind", c.path(file), setting)); err != nil {
			return err
		}
	}
	return nil
}

// makePrivate puts a directory of the cluster in the place of the machine's,
// which has to exist for that; an empty one stays behind.
func (c *Cluster) makePrivate(dir string) error {
	own := c.path("node", dir)
	for _, dir := range []string{own, dir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create %s: %w", dir, err)
		}
	}
	return run(c.command("mount", "--bind", own, dir))
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
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept connection: %w", err)
		}
		go pass(ctx, client, target)
	}
}

// pass copies both ways until both sides have finished sending. A target that cannot be reached is the client's to
// notice, by its connection being closed.
func pass(ctx context.Context, client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var ways sync.WaitGroup
	ways.Go(func() { copyOneWay(server, client) })
	ways.Go(func() { copyOneWay(client, server) })
	ways.Wait()
}

// copyOneWay copies until the source has finished sending and tells the destination so, which leaves the other way
// open.
func copyOneWay(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.(*net.TCPConn).CloseWrite()
}
