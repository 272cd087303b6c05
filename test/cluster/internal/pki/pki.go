// Package pki issues the certificates of a test cluster: one authority that
// everybody trusts, and a key pair for each program.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime is far longer than a test cluster is of use.
const lifetime = 5 * 365 * 24 * time.Hour

// Pair is a certificate and its private key, each in PEM form.
type Pair struct{ Certificate, Key []byte }

// Subject says whom a certificate is for. Kubernetes reads the common name as
// the user's name and the organisations as the user's groups.
type Subject struct {
	CommonName    string
	Organizations []string
}

// Authority issues certificates. It is safe for concurrent use.
type Authority struct {
	pair        Pair
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a fresh key and a certificate signed
// by itself.
func NewAuthority(commonName string) (*Authority, error) {
	template, err := newTemplate(Subject{CommonName: commonName})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	key, pair, err := issue(template, template, nil)
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", commonName, err)
	}
	block, _ := pem.Decode(pair.Certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", commonName, err)
	}
	return &Authority{pair: pair, certificate: certificate, key: key}, nil
}

// Pair returns the authority's own certificate and key.
func (a *Authority) Pair() Pair { return a.pair }

// IssueClient returns a certificate by which the subject is known to servers.
func (a *Authority) IssueClient(subject Subject) (Pair, error) {
	template, err := newTemplate(subject)
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// IssueServer returns a certificate for a server that is reached by the hosts,
// which are DNS names and IP addresses.
func (a *Authority) IssueServer(subject Subject, hosts []string) (Pair, error) {
	template, err := newTemplate(subject)
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return a.issue(template)
}

func (a *Authority) issue(template *x509.Certificate) (Pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	_, pair, err := issue(template, a.certificate, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", template.Subject.CommonName, err)
	}
	return pair, nil
}

// NewKey returns a private key in PEM form, for signing service account tokens.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return encodeKey(key)
}

func newTemplate(subject Subject) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choose serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: subject.CommonName, Organization: subject.Organizations},
		// An hour ago, for clocks that are set back.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(lifetime),
	}, nil
}

// issue makes a key and a certificate for it, signed with the parent's key, or
// with the new key itself if that is nil.
func issue(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, Pair{}, err
	}
	if parentKey == nil {
		parentKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, Pair{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, Pair{}, err
	}
	return key, Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         keyPEM,
	}, nil
}

// encodeKey uses the older of the two PEM forms for elliptic keys: in that one
// Kubernetes takes a private key also where it wants the public one.
func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
