package launch

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin/processlog"
	"github.com/pergola-deploy/pergola/proto/handshake"
)

// A plugin listens in its own directory: a service within reach of the host alone, or another plugin, can listen
// elsewhere.
func TestPluginToHost(t *testing.T) {
	t.Parallel()
	r := &runner{dir: "/tmp/own"}
	for address, allowed := range map[string]bool{
		"unix|/tmp/own/socket": true, "unix|/tmp/own/./socket": true, "unix|/tmp/own/../other/socket": false,
		"unix|/tmp/own/sub/socket": false, "unix|/nowhere": false, "unix|socket": false, "tcp|127.0.0.1:1": false,
		"tcp|/tmp/own/socket": false,
	} {
		network, path, _ := strings.Cut(address, "|")
		gotNetwork, got, err := r.PluginToHost(network, path)
		if (err == nil) != allowed || allowed && gotNetwork+"|"+got != address {
			t.Errorf("%s: found %s, %s, %v", address, gotNetwork, got, err)
		}
	}
}

// Not parallel: it changes the environment of the whole process.
// Rule (SECURITY.md#plugins): The environment of a plugin is an allow-list.
func TestEnvironmentIsAnAllowList(t *testing.T) { //nolint:paralleltest // see above
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "PLUGIN_UNIX_SOCKET_DIR", "HOME",
		"PLUGIN_PROTOCOL_VERSIONS", "PERGOLA_LOG_LEVEL"} {
		t.Setenv(name, "of the host")
	}
	var want []string
	for _, name := range []string{"PATH", "TZ", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY",
		"NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "NPM_TOKEN"} {
		t.Setenv(name, "passed on")
		want = append(want, name+"=passed on")
	}
	want = append(want, "PLUGIN_PROTOCOL_VERSIONS=1", "HOME=/own", "TMPDIR=/own", "PLUGIN_CLIENT_CERT=PEM",
		"PERGOLA_LIFELINE_FD=3", "PERGOLA_LOG_LEVEL=DEBUG")
	o := order{profile: Profile{Environment: []string{"NPM_TOKEN"}}, logLevel: slog.LevelDebug, certificate: []byte("PEM")}
	if diff := cmp.Diff(want, o.environment([]string{"PLUGIN_PROTOCOL_VERSIONS=1"}, "/own")); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// go-plugin reads one line of bounded length, and what follows does not block the plugin.
func TestFirstLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct {
		writes      []string
		first, rest string // the beginning of what is read, and what is logged
	}{
		"a handshake": {
			[]string{"1|1|unix", "|/s|grpc\n" + long + "\nand on", " it goes\n"}, "1|1|unix|/s|grpc\n", "and on it goes",
		},
		"no end":              {[]string{long, "more\n"}, long[:maxHandshake] + "\n", "more"},
		"no more than a word": {[]string{"Hello"}, "Hello\n", ""},
		"nothing":             {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged bytes.Buffer
			out := newOutputs(processlog.New(slog.New(slog.NewTextHandler(&logged, nil)), clock.RealClock{}))
			read := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(out.first.reader) // a pipe within the process
				read <- string(text)
			}()
			for _, text := range test.writes {
				if n, err := out.first.Write([]byte(text)); err != nil || n != len(text) {
					t.Errorf("wrote %d of %d bytes: %v", n, len(text), err)
				}
			}
			out.close()
			if got := <-read; got != test.first {
				t.Errorf("expected %.100q, but found %.100q", test.first, got)
			}
			if !strings.Contains(logged.String(), test.rest) || test.rest == "" && logged.Len() > 0 {
				t.Errorf("expected %q in the log, but found %.1000s", test.rest, logged.String())
			}
		})
	}
}

// Plugins in any language know the curve of the host's key, unlike that of AutoMTLS.
func TestCertificate(t *testing.T) {
	t.Parallel()
	_, text, err := handshake.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := certificate.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("expected a key on P-256, but found %T", certificate.PublicKey)
	}
	// NotBefore of AutoMTLS is half a minute ago, which a clock that is set back does not reach.
	if age := time.Since(certificate.NotBefore); age < time.Hour {
		t.Errorf("expected the certificate to be older than a clock may be set back, but found %s", age)
	}
}
