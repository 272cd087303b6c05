package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/cluster/internal/pki"
)

func TestServerCertificateVerifiesForItsHosts(t *testing.T) {
	authority, roots := newAuthority(t)
	pair, err := authority.IssueServer(pki.Subject{CommonName: "server"}, []string{"127.0.0.1", "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	certificate := parse(t, pair)
	for host, valid := range map[string]bool{"127.0.0.1": true, "localhost": true, "10.0.0.1": false, "other": false} {
		_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: host})
		if (err == nil) != valid {
			t.Errorf("verify for %s: %v, want valid = %t", host, err, valid)
		}
	}
}

func TestClientCertificateIsForClientsOnly(t *testing.T) {
	authority, roots := newAuthority(t)
	pair, err := authority.IssueClient(pki.Subject{CommonName: "user", Organizations: []string{"group"}})
	if err != nil {
		t.Fatal(err)
	}
	certificate := parse(t, pair)
	for usage, valid := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageClientAuth: true, x509.ExtKeyUsageServerAuth: false} {
		_, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
		if (err == nil) != valid {
			t.Errorf("verify for usage %d: %v, want valid = %t", usage, err, valid)
		}
	}
	if subject := certificate.Subject; subject.CommonName != "user" || !slices.Equal(subject.Organization, []string{"group"}) {
		t.Errorf("subject = %s, want user in group", subject)
	}
}

func TestCertificateOfAnotherAuthorityDoesNotVerify(t *testing.T) {
	authority, _ := newAuthority(t)
	_, roots := newAuthority(t)
	pair, err := authority.IssueServer(pki.Subject{CommonName: "server"}, []string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, pair).Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("a certificate verifies by an authority of the same name that did not issue it")
	}
}

func TestKubeconfigHoldsServerAndCredentials(t *testing.T) {
	authority, _ := newAuthority(t)
	pair, err := authority.IssueClient(pki.Subject{CommonName: "user"})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := string(authority.Kubeconfig("https://127.0.0.1:6443", pair))
	encode := base64.StdEncoding.EncodeToString
	for _, want := range []string{
		"server: https://127.0.0.1:6443\n",
		"certificate-authority-data: " + encode(authority.Pair().Certificate) + "\n",
		"client-certificate-data: " + encode(pair.Certificate) + "\n",
		"client-key-data: " + encode(pair.Key) + "\n",
	} {
		if !strings.Contains(kubeconfig, want) {
			t.Errorf("kubeconfig lacks %q", want)
		}
	}
}

func newAuthority(t *testing.T) (*pki.Authority, *x509.CertPool) {
	t.Helper()
	authority, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Pair().Certificate) {
		t.Fatal("the authority's certificate is not a certificate")
	}
	return authority, roots
}

// parse fails the test if the key is not the certificate's.
func parse(t *testing.T, pair pki.Pair) *x509.Certificate {
	t.Helper()
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Leaf
}
