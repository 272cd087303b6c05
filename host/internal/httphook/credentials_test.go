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
	otherCertificate, otherKey := pair(t)
	tests := map[string]struct {
		reason, url string
		secret      map[string][]byte
		serverName  string
		fails       bool
	}{
		"Known": {
			reason: "the server is known by its authority", url: open.URL, secret: map[string][]byte{"ca.crt": openCA},
		},
		"Unknown": {reason: "without one those of the system count", url: open.URL, fails: true},
		"OtherAuthority": {
			reason: "that of another server", url: open.URL, secret: map[string][]byte{"ca.crt": certificate}, fails: true,
		},
		"ServerName": {
			reason: "the certificate is for this name too", url: open.URL, secret: map[string][]byte{"ca.crt": openCA},
			serverName: "example.com",
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
		"OtherClient": {
			reason: "the server does not know who asks", url: closed.URL,
			secret: map[string][]byte{"ca.crt": closedCA, "tls.crt": otherCertificate, "tls.key": otherKey}, fails: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: tc.serverName}
			if tc.secret != nil {
				if err := addTLS(config, tc.secret); err != nil {
					t.Fatal(err)
				}
			}
			err := newHook(t, Options{URL: parse(t, tc.url), TLS: config}).Finalize(t.Context(), "", item())
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

func TestTLSConfigThatCannotBe(t *testing.T) {
	t.Parallel()
	certificate, key := pair(t)
	_, otherKey := pair(t)
	tests := map[string]struct {
		reason string
		secret map[string][]byte
		want   string
	}{
		"NoAuthority": {reason: "no PEM", secret: map[string][]byte{"ca.crt": []byte("confidential")}, want: "ca.crt"},
		"CertificateOnly": {
			reason: "the key is missing", secret: map[string][]byte{"tls.crt": certificate}, want: "together",
		},
		"KeyOnly": {reason: "the certificate is missing", secret: map[string][]byte{"tls.key": key}, want: "together"},
		"OtherKey": {
			reason: "the key of another certificate", secret: map[string][]byte{"tls.crt": certificate, "tls.key": otherKey},
			want: "tls.key",
		},
		"NoPEM": {
			reason: "no PEM", secret: map[string][]byte{"tls.crt": []byte("confidential"), "tls.key": []byte("confidential")},
			want: "tls.crt",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := addTLS(&tls.Config{MinVersion: tls.VersionTLS12}, tc.secret)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "confidential") {
				t.Errorf("%s: expected an error with %q and nothing of the content, but found %v", tc.reason, tc.want, err)
			}
		})
	}
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	data := func(pairs ...string) map[string][]byte {
		out := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = []byte(pairs[i+1])
		}
		return out
	}
	tests := map[string]struct {
		reason string
		secret map[string][]byte
		want   string // empty for an error
	}{
		"Token":   {reason: "a bearer token", secret: data("token", "abc.def"), want: "Bearer abc.def"},
		"Newline": {reason: "as editors write files", secret: data("token", "abc\n"), want: "Bearer abc"},
		"Basic": {
			reason: "user and password", secret: data("username", "me", "password", "a:b"), want: "Basic bWU6YTpi",
		},
		"EmptyPassword": {reason: "some have none", secret: data("username", "me", "password", ""), want: "Basic bWU6"},
		"Both": {
			reason: "nobody knows which one counts",
			secret: data("token", "confidential", "username", "me", "password", "confidential"),
		},
		"Nothing":    {reason: "another secret", secret: data("key", "confidential")},
		"UserOnly":   {reason: "the password is missing", secret: data("username", "confidential")},
		"EmptyToken": {reason: "it would be no header", secret: data("token", "\n")},
		"Space":      {reason: "it would be two words", secret: data("token", "confidential x")},
		"Colon":      {reason: "the password would begin there", secret: data("username", "confidential:x", "password", "")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := authorization(tc.secret)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%s: expected %q, but found %q (%v)", tc.reason, tc.want, got, err)
			}
			if err != nil && strings.Contains(err.Error(), "confidential") {
				t.Errorf("%s: the error has the content: %v", tc.reason, err)
			}
		})
	}
}
