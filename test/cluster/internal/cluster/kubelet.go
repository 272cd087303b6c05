package cluster

import (
	"context"
	"fmt"
	"path/filepath"
)

const kubelet = "kubelet"

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

// KillKubelet ends the node's kubelet as a crash does: at once, and nothing
// starts it again. Containers go on, but nobody looks after them. A kubelet
// that does not run is not an error.
func (c *Cluster) KillKubelet(ctx context.Context) error {
	err := c.locked(ctx, func() error {
		if _, err := c.node(); err != nil {
			return err
		}
		return c.table.Stop(ctx, kubelet, 0)
	})
	if err != nil {
		return fmt.Errorf("kill the kubelet of %s: %w", c.dir, err)
	}
	c.say("killed the kubelet")
	return nil
}

// StartKubelet starts the kubelet again as Up has started it, and returns when
// it answers. One that runs is not an error.
func (c *Cluster) StartKubelet(ctx context.Context) error {
	err := c.locked(ctx, func() error {
		s, err := c.node()
		if err != nil {
			return err
		}
		if c.table.Check(kubelet) != nil {
			return c.restartKubelet(ctx, s)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("start the kubelet of %s: %w", c.dir, err)
	}
	c.say("the kubelet is up")
	return nil
}

func (c *Cluster) restartKubelet(ctx context.Context, s state) error {
	namespaces, err := c.namespaces(s)
	if err != nil {
		return err
	}
	access, err := c.access(s)
	if err != nil {
		return err
	}
	if err := c.startKubelet(s, namespaces); err != nil {
		return err
	}
	// The node is ready until somebody misses the old kubelet, which says
	// nothing of the new one.
	return c.await(ctx, kubelet, []string{kubelet}, func(ctx context.Context) error {
		_, err := access.get(ctx, "/api/v1/nodes/"+nodeName+"/proxy/healthz")
		return err
	})
}

func (c *Cluster) startKubelet(s state, namespaces namespaces) error {
	config := fmt.Appendf(nil, kubeletFormat, nodeIP, c.path("pki"), c.containerdSocket(), c.name, dnsIP)
	if err := c.write("node/kubelet.yaml", config); err != nil {
		return err
	}
	_, err := c.table.Start(kubelet, namespaces.command(filepath.Join(s.Programs, kubelet),
		"--config="+c.path("node", "kubelet.yaml"),
		"--kubeconfig="+c.path("pki", "kubelet.kubeconfig"),
		"--cert-dir="+c.path("pki"),
		"--hostname-override="+nodeName,
		"--node-ip="+nodeIP,
	))
	return err
}
