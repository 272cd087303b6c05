package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// lifetime is far longer than a test cluster is of use.
const lifetime = 5 * 365 * 24 * time.Hour

const kubeconfigFormat = `apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: test
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: test
  context:
    cluster: test
    user: test
current-context: test
`

// pair is a certificate and its private key, each in PEM form.
type pair struct{ certificate, key []byte }

// authority issues the certificates of a cluster, and is whom everybody trusts.
type authority struct {
	pair
	parsed *x509.Certificate
	signer crypto.Signer
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "pergola-test-cluster"}, key)
	if err != nil {
		return nil, fmt.Errorf("create authority: %w", err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return &authority{pair: pair{encodeCertificate(certificate.Raw), keyPEM}, parsed: certificate, signer: key}, nil
}

// issue returns a certificate by which servers know a user of some groups, and by which clients know the server of
// some hosts.
func (a *authority) issue(user string, groups []string, hosts ...string) (pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return pair{}, fmt.Errorf("choose serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour), // for clocks that are set back
		NotAfter:     time.Now().Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("generate key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.parsed, key.Public(), a.signer)
	if err != nil {
		return pair{}, fmt.Errorf("issue certificate for %s: %w", user, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return pair{}, fmt.Errorf("encode key: %w", err)
	}
	return pair{encodeCertificate(der), keyPEM}, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}

// kubeconfig returns a kubeconfig file by which the holder of a pair reaches the server at an address.
func (a *authority) kubeconfig(address string, client pair) []byte {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, kubeconfigFormat,
		"https://"+address, encode(a.certificate), encode(client.certificate), encode(client.key))
}

// issueCredentials writes keys, certificates and kubeconfig files to the directory pki, and the administrator's to the
// file kubeconfig.
func (c *Cluster) issueCredentials(at addresses) error {
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	serviceAccountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("generate key of service accounts: %w", err)
	}
	if err := c.write("pki/service-account.key", serviceAccountKey); err != nil {
		return err
	}
	if err := c.writePair("ca", authority.pair); err != nil {
		return err
	}
	for _, holder := range []struct {
		file, user string
		groups     []string
		hosts      []string // of a server
		address    string   // of the API server, for the kubeconfig of a client
	}{
		{file: "kube-apiserver", user: "kube-apiserver", hosts: []string{
			"127.0.0.1", nodeIP, serviceIP, "localhost",
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{file: "kube-apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
		{file: "pki/kube-controller-manager.kubeconfig", user: "system:kube-controller-manager", address: at.server},
		{file: "pki/kube-scheduler.kubeconfig", user: "system:kube-scheduler", address: at.server},
		{file: "pki/kube-proxy.kubeconfig", user: "system:kube-proxy", address: at.server},
		{
			file: "pki/kubelet.kubeconfig", user: "system:node:" + nodeName, groups: []string{"system:nodes"},
			address: at.server,
		},
		{file: "kubelet", user: nodeName, hosts: []string{nodeName, nodeIP}},
		{file: kubeconfigFile, user: "admin", groups: []string{"system:masters"}, address: at.api},
	} {
		issued, err := authority.issue(holder.user, holder.groups, holder.hosts...)
		if err != nil {
			return err
		}
		if holder.address != "" {
			err = c.write(holder.file, authority.kubeconfig(holder.address, issued))
		} else {
			err = c.writePair(holder.file, issued)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writePair(name string, p pair) error {
	if err := c.write("pki/"+name+".crt", p.certificate); err != nil {
		return err
	}
	return c.write("pki/"+name+".key", p.key)
}
