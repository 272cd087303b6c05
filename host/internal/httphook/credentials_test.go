package httphook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// secure starts a server with TLS and returns it with the certificate that it is known by, in PEM.
func secure(t *testing.T, handler http.Handler, clients *x509.CertPool) (*httptest.Server, []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are what is tested
	server.EnableHTTP2 = true
	if clients != nil {
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// pair makes a certificate that signs itself, and its key, both in PEM.
func pair(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pergola"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, key := pair(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(certificate)
	var protocol string
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol = r.Proto
		w.WriteHeader(http.StatusNoContent)
	})
	open, openCA := secure(t, answer, nil)
	closed, closedCA := secure(t, answering(http.StatusNoContent, ""), clients)
	for name, tc := range map[string]struct {
		reason, url string
		secret      map[string][]byte
		serverName  string
		fails       bool
	}{
		"Known": {
			reason: "the server is known by its authority, and this name", url: open.URL,
			secret: map[string][]byte{"ca.crt": openCA}, serverName: "example.com",
		},
		"Unknown": {reason: "without one those of the system count", url: open.URL, fails: true},
		"OtherAuthority": {
			reason: "its authority is another one", url: open.URL, secret: map[string][]byte{"ca.crt": certificate}, fails: true,
		},
		"OtherName": {
			reason: "the certificate is for other names", url: open.URL, secret: map[string][]byte{"ca.crt": openCA},
			serverName: "example.org", fails: true,
		},
		"Client": {
			reason: "the server knows the host", url: closed.URL,
			secret: map[string][]byte{"ca.crt": closedCA, "tls.crt": certificate, "tls.key": key},
		},
		"NoClient": {
			reason: "the server wants to know who asks", url: closed.URL, secret: map[string][]byte{"ca.crt": closedCA},
			fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: tc.serverName}
			if tc.secret != nil {
				if err := addTLS(config, tc.secret); err != nil {
					t.Fatal(err)
				}
			}
			err := newHook(Options{URL: parse(t, tc.url), TLS: config}).Finalize(t.Context(), "", item())
			if !tc.fails {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			if failed := hookError(t, err); failed.Reason != ReasonUnreachable || failed.Permanent {
				t.Errorf("%s: expected a %s that is tried again, but found %#v", tc.reason, ReasonUnreachable, failed)
			}
		})
	}
	if protocol != "HTTP/2.0" {
		t.Errorf("expected HTTP/2, as the server has it, but found %s", protocol)
	}
}

// A secret that does not have what it should is refused by the names of its keys, without anything of its content.
func TestSecretsThatCannotBe(t *testing.T) {
	t.Parallel()
	certificate, _ := pair(t)
	_, otherKey := pair(t)
	auth := func(secret map[string][]byte) error {
		_, err := authorization(secret)
		return err
	}
	ofTLS := func(secret map[string][]byte) error { return addTLS(&tls.Config{MinVersion: tls.VersionTLS12}, secret) }
	for name, tc := range map[string]struct {
		reason string
		use    func(map[string][]byte) error
		secret map[string]string
		want   string
	}{
		"NoAuthority":     {"no PEM", ofTLS, map[string]string{"ca.crt": "confidential"}, "ca.crt"},
		"CertificateOnly": {"the key is missing", ofTLS, map[string]string{"tls.crt": string(certificate)}, "together"},
		"KeyOnly":         {"the certificate is missing", ofTLS, map[string]string{"tls.key": string(otherKey)}, "together"},
		"OtherKey": {
			"the key of another certificate", ofTLS,
			map[string]string{"tls.crt": string(certificate), "tls.key": string(otherKey)}, "tls.key",
		},
		"NoPEM": {"no PEM", ofTLS, map[string]string{"tls.crt": "confidential", "tls.key": "confidential"}, "tls.crt"},
		"Both": {
			"nobody knows which one counts", auth,
			map[string]string{"token": "confidential", "username": "me", "password": "confidential"}, "found both",
		},
		"Nothing":    {"another secret", auth, map[string]string{"key": "confidential"}, "found none"},
		"UserOnly":   {"the password is missing", auth, map[string]string{"username": "confidential"}, "found none"},
		"EmptyToken": {"it would be no header", auth, map[string]string{"token": "\n"}, "visible ASCII"},
		"Space":      {"it would be two words", auth, map[string]string{"token": "confidential x"}, "visible ASCII"},
		"Colon": {
			"the password would begin there", auth, map[string]string{"username": "confidential:x", "password": ""}, "colon",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.use(newSecret("", tc.secret).Data)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "confidential") {
				t.Errorf("%s: expected an error with %q and nothing of the content, but found %v", tc.reason, tc.want, err)
			}
		})
	}
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	for want, secret := range map[string]map[string]string{
		"Bearer abc.def": {"token": "abc.def"},
		"Bearer abc":     {"token": "abc\n"}, // as editors write files
		"Basic bWU6YTpi": {"username": "me", "password": "a:b"},
		"Basic bWU6":     {"username": "me", "password": ""},
	} {
		if got, err := authorization(newSecret("", secret).Data); got != want || err != nil {
			t.Errorf("expected %q, but found %q (%v)", want, got, err)
		}
	}
}
