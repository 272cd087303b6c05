package handshake

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// certificateLife is longer than any process lives, and certificateSlack is how far back a clock may be set meanwhile.
const (
	certificateLife  = 30 * 365 * 24 * time.Hour
	certificateSlack = 24 * time.Hour
)

// ClientTLS returns the host's side of mutual TLS for one process of a plugin, and the host's certificate in PEM, by
// which the plugin knows the host. The plugin's own certificate comes with the handshake; go-plugin adds it.
//
// go-plugin's AutoMTLS does the same with a key on the curve P-521. Nothing but Go verifies that: BoringSSL, and so
// gRPC for most other languages, does not know the curve.
func ClientTLS() (config *tls.Config, certificate []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate the host's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("generate the host's certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "localhost", Organization: []string{"Pergola"}},
		DNSNames:              []string{"localhost"},
		NotBefore:             now.Add(-certificateSlack),
		NotAfter:              now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true, // the plugin trusts what it signs, and it signs itself only
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("generate the host's certificate: %w", err)
	}
	config = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		// Without the plugin's own certificate nobody is trusted, rather than whomever the machine trusts.
		RootCAs:    x509.NewCertPool(),
		ServerName: "localhost",
		MinVersion: tls.VersionTLS12,
	}
	return config, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
