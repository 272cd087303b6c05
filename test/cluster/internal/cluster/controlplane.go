package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
)

const (
	serviceRange = "10.96.0.0/24"
	// serviceIP is the address of the service kubernetes: the first of range.
	serviceIP = "10.96.0.1"
	// dnsIP is the address a DNS service would have. The cluster brings none.
	dnsIP = "10.96.0.10"
)

func (c *Cluster) startControlPlane(ctx context.Context, at addresses) error {
	apiServer, err := c.apiServerArguments(at)
	if err != nil {
		return err
	}
	if err := c.startProgram("etcd", c.etcdArguments(at)...); err != nil {
		return err
	}
	if err := c.startProgram("kube-apiserver", apiServer...); err != nil {
		return err
	}
	if err := c.await(ctx, "API server", []string{"etcd", "kube-apiserver"}, "get", "--raw", "/readyz"); err != nil {
		return err
	}
	if err := c.startProgram("kube-controller-manager", c.controllerManagerArguments()...); err != nil {
		return err
	}
	return c.startProgram("kube-scheduler", c.clientArguments("kube-scheduler")...)
}

// startProgram starts one of the programs that are built.
func (c *Cluster) startProgram(name string, args ...string) error {
	_, err := c.start(name, c.command(append([]string{filepath.Join(c.Programs, name)}, args...)...))
	return err
}

func (c *Cluster) etcdArguments(at addresses) []string {
	client, peer := "http://"+at.etcd, "http://"+at.etcdPeer
	return []string{
		"--data-dir=" + c.path("etcd"),
		"--unsafe-no-fsync",
		"--log-level=warn",
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
	}
}

func (c *Cluster) apiServerArguments(at addresses) ([]string, error) {
	host, port, err := net.SplitHostPort(at.server)
	if err != nil {
		return nil, fmt.Errorf("parse the API server's address: %w", err)
	}
	args := []string{
		"--etcd-servers=http://" + at.etcd,
		"--bind-address=" + host,
		"--advertise-address=" + host,
		"--secure-port=" + port,
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged",
		"--authorization-mode=Node,RBAC",
		"--client-ca-file=" + c.path("pki", "ca.crt"),
		"--tls-cert-file=" + c.path("pki", "kube-apiserver.crt"),
		"--tls-private-key-file=" + c.path("pki", "kube-apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("pki", "service-account.key"),
		"--service-account-signing-key-file=" + c.path("pki", "service-account.key"),
		// Nobody resolves the node's name, so logs and exec need its address.
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority=" + c.path("pki", "ca.crt"),
		"--kubelet-client-certificate=" + c.path("pki", "kube-apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.path("pki", "kube-apiserver-kubelet-client.key"),
	}
	if !c.Node {
		// An endpoint must not be a loopback address.
		args = append(args, "--endpoint-reconciler-type=none")
	}
	return args, nil
}

func (c *Cluster) controllerManagerArguments() []string {
	return append(c.clientArguments("kube-controller-manager"),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+c.path("pki", "service-account.key"),
		"--root-ca-file="+c.path("pki", "ca.crt"),
		"--cluster-signing-cert-file="+c.path("pki", "ca.crt"),
		"--cluster-signing-key-file="+c.path("pki", "ca.key"),
	)
}

// clientArguments are those of the programs that only use the API. They serve
// nothing, so they need no ports.
func (c *Cluster) clientArguments(name string) []string {
	return []string{
		"--kubeconfig=" + c.path("pki", name+".kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
		// The default rate delays the default service account by 5 seconds.
		"--kube-api-qps=500",
		"--kube-api-burst=1000",
	}
}
