package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pergola-deploy/pergola/test/cluster/internal/image"
)

const (
	nodeName = "node"
	// nodeIP is the node's address, on the loopback interface of its network
	// namespace. It is outside of podRange, whose first address is the pods'
	// gateway.
	nodeIP   = "10.87.0.1"
	podRange = "10.88.0.0/24"

	sandboxImage = "localhost/pause:1"
)

const containerdFormat = `version = 2
[grpc]
  address = %q
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`

// networkConfig connects each pod to the node by a pair of interfaces and a
// route. Unlike a bridge, that has all traffic between pods pass through the
// node's packet filter, where kube-proxy's services are.
const networkConfig = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [{
    "type": "ptp",
    "ipam": {
      "type": "host-local",
      "ranges": [[{"subnet": "` + podRange + `"}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
`

// containerdSocket is a path in the node's mount namespace. Being unique to
// the cluster, it marks the processes that containerd leaves behind.
func (c *Cluster) containerdSocket() string { return "/run/containerd/" + c.name + ".sock" }

func (c *Cluster) startNode(ctx context.Context, s state, namespaces namespaces, access *api) error {
	if err := c.startContainerd(ctx, s, namespaces); err != nil {
		return err
	}
	if err := c.createCgroups(); err != nil {
		return err
	}
	if err := c.startKubelet(s, namespaces); err != nil {
		return err
	}
	_, err := c.table.Start("kube-proxy", namespaces.command(filepath.Join(s.Programs, "kube-proxy"),
		"--kubeconfig="+c.path("pki", "kube-proxy.kubeconfig"),
		"--hostname-override="+nodeName,
		"--proxy-mode=nftables",
		// The size of the connection table is the machine's, not the node's.
		"--conntrack-max-per-core=0",
	))
	if err != nil {
		return err
	}
	return c.await(ctx, "node", []string{"containerd", "kube-proxy", kubelet}, func(ctx context.Context) error {
		return access.nodeReady(ctx, nodeName)
	})
}

// startContainerd starts the container runtime and loads the sandbox image.
func (c *Cluster) startContainerd(ctx context.Context, s state, namespaces namespaces) error {
	plugins, err := networkPluginDir()
	if err != nil {
		return err
	}
	config := fmt.Appendf(nil, containerdFormat, c.containerdSocket(), sandboxImage, plugins, c.path("node", "cni"))
	if err := c.write("node/containerd.toml", config); err != nil {
		return err
	}
	if err := c.write("node/cni/pods.conflist", []byte(networkConfig)); err != nil {
		return err
	}
	_, err = c.table.Start("containerd", namespaces.command(
		"containerd", "--config="+c.path("node", "containerd.toml"), "--log-level=warn"))
	if err != nil {
		return err
	}
	err = c.await(ctx, "containerd", []string{"containerd"}, func(context.Context) error {
		return namespaces.run("ctr", "--address="+c.containerdSocket(), "version")
	})
	if err != nil {
		return err
	}
	pause, err := os.ReadFile(filepath.Join(s.Programs, "pause"))
	if err != nil {
		return fmt.Errorf("make the sandbox image: %w", err)
	}
	var archive bytes.Buffer
	if err := image.Write(&archive, image.Image{Name: sandboxImage, Command: "pause", Binary: pause}); err != nil {
		return fmt.Errorf("make the sandbox image: %w", err)
	}
	if err := c.write("node/pause.tar", archive.Bytes()); err != nil {
		return err
	}
	return c.importImage(namespaces, c.path("node", "pause.tar"))
}

// importImage loads an image from a docker-archive into the node.
func (c *Cluster) importImage(namespaces namespaces, archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	// k8s.io is where the kubelet's container runtime looks for images.
	err = namespaces.run("ctr", "--address="+c.containerdSocket(), "--namespace=k8s.io", "images", "import", archive)
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	return nil
}
