package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	kubelet  = "kubelet"
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

// The kubelet must accept the machine it is on: either version of cgroups, any
// swap and nearly full disks.
const kubeletFormat = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
healthzBindAddress: 127.0.0.1
tlsCertFile: %[2]s/kubelet.crt
tlsPrivateKeyFile: %[2]s/kubelet.key
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[2]s/ca.crt}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://%[3]s
volumePluginDir: /var/lib/kubelet/volumeplugins
cgroupDriver: cgroupfs
cgroupRoot: /%[4]s
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
evictionHard: {memory.available: 100Mi, nodefs.available: 1%%, imagefs.available: 1%%}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
clusterDomain: cluster.local
clusterDNS: [%[5]s]
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

// containerdSocket is a path in the node's mount namespace.
func (c *Cluster) containerdSocket() string { return "/run/containerd/containerd.sock" }

func (c *Cluster) startNode(ctx context.Context) error {
	if err := c.startContainerd(ctx); err != nil {
		return err
	}
	if err := c.createCgroups(); err != nil {
		return err
	}
	if err := c.startKubelet(); err != nil {
		return err
	}
	err := c.startProgram("kube-proxy",
		"--kubeconfig="+c.path("pki", "kube-proxy.kubeconfig"),
		"--hostname-override="+nodeName,
		"--proxy-mode=nftables",
		// The size of the connection table is the machine's, not the node's.
		"--conntrack-max-per-core=0",
	)
	if err != nil {
		return err
	}
	return c.await(ctx, "node", []string{"containerd", "kube-proxy", kubelet},
		"wait", "node/"+nodeName, "--for=condition=Ready", "--timeout=5s")
}

// startContainerd starts the container runtime and loads the sandbox image.
func (c *Cluster) startContainerd(ctx context.Context) error {
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
	cmd := c.command("containerd", "--config="+c.path("node", "containerd.toml"), "--log-level=warn")
	if _, err := c.start("containerd", cmd); err != nil {
		return err
	}
	err = poll(ctx, startTimeout, func() error { return c.ctr("version") })
	if err != nil {
		return c.explain("containerd", fmt.Errorf("wait for containerd: %w", err))
	}
	pause, err := os.ReadFile(filepath.Join(c.Programs, "pause"))
	if err != nil {
		return fmt.Errorf("make the sandbox image: %w", err)
	}
	image, err := Image(sandboxImage, "", "pause", pause)
	if err != nil {
		return err
	}
	if err := c.write("node/pause.tar", image); err != nil {
		return err
	}
	return c.importImage(c.path("node", "pause.tar"))
}

// ctr runs containerd's command in the namespace in which the kubelet's container runtime looks for images.
func (c *Cluster) ctr(args ...string) error {
	return run(c.command(append([]string{"ctr", "--address=" + c.containerdSocket(), "--namespace=k8s.io"}, args...)...))
}

func (c *Cluster) importImage(archive string) error {
	archive, err := filepath.Abs(archive)
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	if err := c.ctr("images", "import", archive); err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	return nil
}

// Import loads images from docker-archive files, or from OCI layouts, into the cluster's node.
func (c *Cluster) Import(archives []string) error {
	if err := c.findNode(); err != nil {
		return fmt.Errorf("import images to %s: %w", c.dir, err)
	}
	for _, archive := range archives {
		if err := c.importImage(archive); err != nil {
			return err
		}
		c.say("imported %s", archive)
	}
	return nil
}

// findNode reads the state of a cluster that is up with a node.
func (c *Cluster) findNode() error {
	if err := c.load(); err != nil {
		return err
	}
	switch {
	case c.Programs == "":
		return errNoCluster
	case !c.Node:
		return errors.New("the cluster is up without a node")
	}
	return c.findNamespaces()
}

func (c *Cluster) startKubelet() error {
	config := fmt.Appendf(nil, kubeletFormat, nodeIP, c.path("pki"), c.containerdSocket(), c.Name, dnsIP)
	if err := c.write("node/kubelet.yaml", config); err != nil {
		return err
	}
	return c.startProgram(kubelet,
		"--config="+c.path("node", "kubelet.yaml"),
		"--kubeconfig="+c.path("pki", "kubelet.kubeconfig"),
		"--cert-dir="+c.path("pki"),
		"--hostname-override="+nodeName,
		"--node-ip="+nodeIP,
	)
}
