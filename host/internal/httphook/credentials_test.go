package httphook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/proto/handshake"
)

// secure starts a server with TLS and returns it with the certificate that it is known by, in PEM.
func secure(t *testing.T, handler http.HandlerFunc, clients *x509.CertPool) (*httptest.Server, []byte) {
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
	config, certificate, err := handshake.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(config.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, key := pair(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(certificate)
	var protocol string
	open, openCA := secure(t, func(w http.ResponseWriter, r *http.Request) {
		protocol = r.Proto
		w.WriteHeader(http.StatusNoContent)
	}, nil)
	closed, closedCA := secure(t, answering(http.StatusNoContent, ""), clients)
	type secret = map[string][]byte
	for name, tc := range map[string]struct {
		reason, url string
		secret      secret
		serverName  string
		fails       bool
	}{
		"Known": {"the server is known by its authority, and this name",
			open.URL, secret{"ca.crt": openCA}, "example.com", false},
		"Unknown":        {"without one those of the system count", open.URL, nil, "", true},
		"OtherAuthority": {"its authority is another one", open.URL, secret{"ca.crt": certificate}, "", true},
		"OtherName":      {"the certificate is for other names", open.URL, secret{"ca.crt": openCA}, "example.org", true},
		"Client": {"the server knows the host",
			closed.URL, secret{"ca.crt": closedCA, "tls.crt": certificate, "tls.key": key}, "", false},
		"NoClient": {"the server wants to know its client", closed.URL, secret{"ca.crt": closedCA}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: tc.serverName}
			if tc.secret != nil {
				if err := addTLS(config, tc.secret); err != nil {
					t.Fatal(err)
				}
			}
			err := finalize(t, Options{URL: parse(t, tc.url), TLS: config})
			var failed *Error
			switch {
			case !tc.fails && err != nil:
				t.Errorf("%s: %v", tc.reason, err)
			case tc.fails && (!errors.As(err, &failed) || failed.Reason != ReasonUnreachable || failed.Permanent):
				t.Errorf("%s: expected a %s that is tried again, but found %#v", tc.reason, ReasonUnreachable, err)
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
	type secret = map[string]string
	for name, tc := range map[string]struct {
		reason string
		use    func(map[string][]byte) error
		secret secret
		want   string
	}{
		"NoAuthority":     {"no PEM", ofTLS, secret{"ca.crt": "confidential"}, "ca.crt"},
		"CertificateOnly": {"the key is missing", ofTLS, secret{"tls.crt": string(certificate)}, "together"},
		"KeyOnly":         {"the certificate is missing", ofTLS, secret{"tls.key": string(otherKey)}, "together"},
		"OtherKey": {"the key of another certificate",
			ofTLS, secret{"tls.crt": string(certificate), "tls.key": string(otherKey)}, "tls.key"},
		"NoPEM": {"no PEM", ofTLS, secret{"tls.crt": "confidential", "tls.key": "confidential"}, "tls.crt"},
		"Both": {"either could be meant",
			auth, secret{"token": "confidential", "username": "me", "password": "confidential"}, "found both"},
		"Nothing":    {"another secret", auth, secret{"key": "confidential"}, "found none"},
		"UserOnly":   {"the password is missing", auth, secret{"username": "confidential"}, "found none"},
		"EmptyToken": {"it would be no header", auth, secret{"token": "\n"}, "visible ASCII"},
		"Space":      {"it would be two words", auth, secret{"token": "confidential x"}, "visible ASCII"},
		"Colon":      {"the password would begin there", auth, secret{"username": "confidential:x", "password": ""}, "colon"},
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
