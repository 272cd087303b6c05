package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"github.com/pergola-deploy/pergola/test/cluster/internal/pki"
)

const (
	serviceRange = "10.96.0.0/24"
	// serviceIP is the address of the service kubernetes: the first of range.
	serviceIP = "10.96.0.1"
	// dnsIP is the address a DNS service would have. The cluster brings none.
	dnsIP = "10.96.0.10"
)

// issueCredentials writes keys, certificates and kubeconfig files to the
// directory pki, and the administrator's to the file kubeconfig.
func (c *Cluster) issueCredentials(s state) error {
	authority, err := pki.NewAuthority("pergola-test-cluster")
	if err != nil {
		return err
	}
	serviceAccountKey, err := pki.NewKey()
	if err != nil {
		return err
	}
	if err := c.write("pki/service-account.key", serviceAccountKey); err != nil {
		return err
	}
	if err := c.writePair("ca", authority.Pair()); err != nil {
		return err
	}
	if err := c.issueServers(authority); err != nil {
		return err
	}
	for name, subject := range map[string]pki.Subject{
		"kube-controller-manager": {CommonName: "system:kube-controller-manager"},
		"kube-scheduler":          {CommonName: "system:kube-scheduler"},
		"kube-proxy":              {CommonName: "system:kube-proxy"},
		"kubelet":                 {CommonName: "system:node:" + nodeName, Organizations: []string{"system:nodes"}},
	} {
		client, err := authority.IssueClient(subject)
		if err != nil {
			return err
		}
		file := "pki/" + name + ".kubeconfig"
		if err := c.write(file, authority.Kubeconfig("https://"+s.Server, client)); err != nil {
			return err
		}
	}
	admin, err := authority.IssueClient(pki.Subject{CommonName: "admin", Organizations: []string{"system:masters"}})
	if err != nil {
		return err
	}
	if err := c.write("kubeconfig", authority.Kubeconfig("https://"+s.API, admin)); err != nil {
		return err
	}
	return c.writePair("admin", admin)
}

// issueServers writes the certificates of the two servers, and the one by
// which the API server is known to the kubelet.
func (c *Cluster) issueServers(authority *pki.Authority) error {
	apiServer, err := authority.IssueServer(pki.Subject{CommonName: "kube-apiserver"}, []string{
		"127.0.0.1", nodeIP, serviceIP, "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	})
	if err != nil {
		return err
	}
	kubelet, err := authority.IssueServer(pki.Subject{CommonName: nodeName}, []string{nodeName, nodeIP})
	if err != nil {
		return err
	}
	client, err := authority.IssueClient(pki.Subject{CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}})
	if err != nil {
		return err
	}
	for name, pair := range map[string]pki.Pair{
		"kube-apiserver":                apiServer,
		"kubelet":                       kubelet,
		"kube-apiserver-kubelet-client": client,
	} {
		if err := c.writePair(name, pair); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writePair(name string, pair pki.Pair) error {
	if err := c.write("pki/"+name+".crt", pair.Certificate); err != nil {
		return err
	}
	return c.write("pki/"+name+".key", pair.Key)
}

func (c *Cluster) startControlPlane(ctx context.Context, s state, namespaces namespaces, access *api) error {
	apiServer, err := c.apiServerArguments(s)
	if err != nil {
		return err
	}
	start := func(name string, args []string) error {
		argv := append([]string{filepath.Join(s.Programs, name)}, args...)
		_, err := c.table.Start(name, namespaces.command(argv...))
		return err
	}
	if err := start("etcd", c.etcdArguments(s)); err != nil {
		return err
	}
	if err := start("kube-apiserver", apiServer); err != nil {
		return err
	}
	err = c.await(ctx, "API server", []string{"etcd", "kube-apiserver"}, func(ctx context.Context) error {
		_, err := access.get(ctx, "/readyz")
		return err
	})
	if err != nil {
		return err
	}
	if err := start("kube-controller-manager", c.controllerManagerArguments()); err != nil {
		return err
	}
	return start("kube-scheduler", c.schedulerArguments())
}

func (c *Cluster) etcdArguments(s state) []string {
	client, peer := "http://"+s.Etcd, "http://"+s.EtcdPeer
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

func (c *Cluster) apiServerArguments(s state) ([]string, error) {
	host, port, err := net.SplitHostPort(s.Server)
	if err != nil {
		return nil, fmt.Errorf("parse the API server's address: %w", err)
	}
	args := []string{
		"--etcd-servers=http://" + s.Etcd,
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
	if !s.Node {
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

func (c *Cluster) schedulerArguments() []string { return c.clientArguments("kube-scheduler") }

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
