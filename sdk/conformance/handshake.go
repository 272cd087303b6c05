package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/pergola-deploy/pergola/proto/handshake"
)

// identityName is what the certificates of both sides are made out to.
const identityName = "localhost"

// identity is the certificate of a client, which signs itself.
type identity struct {
	certificate tls.Certificate
	pem         []byte
}

// newIdentity makes an ECDSA P-256 certificate, which gRPC's libraries for all languages can verify.
func newIdentity() (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: identityName},
		DNSNames:              []string{identityName},
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		NotBefore:             time.Now().Add(-time.Minute),
		NotAfter:              time.Now().AddDate(30, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create certificate: %w", err)
	}
	return &identity{
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

// tlsConfig is that of a client with the given certificates, for a server with the given one.
func tlsConfig(server *x509.Certificate, own ...tls.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(server)
	return &tls.Config{Certificates: own, RootCAs: roots, ServerName: identityName, MinVersion: tls.VersionTLS12}
}

// handshakeError says that a program is no plugin, and which rule it breaks.
type handshakeError struct{ Violation }

func (e *handshakeError) Error() string { return e.Message }

func handshakeErrorf(rule Rule, format string, args ...any) error {
	return &handshakeError{Violation{Rule: rule, Message: fmt.Sprintf(format, args...)}}
}

// endpoint is where a plugin says that it can be reached.
type endpoint struct {
	socket      string
	certificate *x509.Certificate
}

// parseHandshake reads the first line of a plugin's standard output. The plugin was told to put its socket into socketDir.
// The error is a handshakeError.
func parseHandshake(line, socketDir string) (*endpoint, error) {
	const fields = 6
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < fields-1 {
		return nil, handshakeErrorf(RuleHandshakeLine, "the first line is %s; expected 1|%d|unix|PATH|grpc|CERTIFICATE",
			quoted(line), handshake.ProtocolVersion)
	}
	if core := strconv.Itoa(goplugin.CoreProtocolVersion); parts[0] != core {
		return nil, handshakeErrorf(RuleHandshakeLine, "the first field is %s; expected %s", quoted(parts[0]), core)
	}
	if parts[4] != string(goplugin.ProtocolGRPC) {
		return nil, handshakeErrorf(RuleHandshakeLine, "the fifth field is %s; expected %s", quoted(parts[4]), goplugin.ProtocolGRPC)
	}
	if parts[1] != strconv.Itoa(handshake.ProtocolVersion) {
		return nil, handshakeErrorf(RuleHandshakeVersion, "the version is %s; %d was offered", quoted(parts[1]), handshake.ProtocolVersion)
	}
	if parts[2] != "unix" || !strings.HasPrefix(filepath.Clean(parts[3]), socketDir+string(filepath.Separator)) {
		return nil, handshakeErrorf(RuleHandshakeSocket, "it listens on %s at %s; expected a Unix socket in %s (%s)",
			quoted(parts[2]), quoted(parts[3]), socketDir, goplugin.EnvUnixSocketDir)
	}
	if len(parts) < fields || parts[5] == "" {
		return nil, handshakeErrorf(RuleMutualTLS, "the handshake has no certificate in its sixth field")
	}
	certificate, err := parseCertificate(parts[5])
	if err != nil {
		return nil, handshakeErrorf(RuleMutualTLS, "the sixth field of the handshake is no certificate (base64 of DER, without padding): %v", err)
	}
	return &endpoint{socket: filepath.Clean(parts[3]), certificate: certificate}, nil
}

func parseCertificate(field string) (*x509.Certificate, error) {
	der, err := base64.RawStdEncoding.DecodeString(field)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// quoted shows the beginning of what a plugin has written.
func quoted(text string) string {
	const most = 100
	if len(text) > most {
		return fmt.Sprintf("%.*q…", most, text)
	}
	return strconv.Quote(text)
}
