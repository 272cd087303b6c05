package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/proto/handshake"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// What go-plugin does to a host that trusts it, by where it was met first, and the tests that show that it does not
// happen here:
//
//	terraform#38940: Client.Kill has no deadline                          TestEndIsBounded
//	go-plugin#38, velero#5972: a line on standard error ends the host     TestLogOfNoRecords
//	go-plugin#149, #183: the reason of a failed start is lost         TestWhatIsNoPlugin
//	AutoMTLS: the curve is known to Go only                               TestCurve
//	go-plugin#306: a client is used again after a failed start            TestStartsThatFailAreTriedAgain
//	go-plugin#31, #305: a plugin that has ended stays away                TestRestart
//	Client.Ping has no deadline                                           TestWedgedProcess
//	go-plugin#136: children outlive a plugin                              TestTheWholeGroupIsKilled
//	spire#93: a plugin outlives its host                                  TestPluginsEndWithTheHost
//	go-plugin#103: the environment leaks                                  TestEnvironmentIsAnAllowList
//	terraform#22198: the path of the socket is too long                   TestOpenWithLongPathForSockets
//	SecureConfig: a file is changed after the check                       TestVerification, TestRestartRunsWhatWasLoaded
//	terraform#12580: the message about versions misleads                  TestWhatIsNoPlugin, TestVersionError
//	go-plugin#164, #199: something is printed before the handshake        TestWhatIsNoPlugin
//	UnixSocketConfig.TempDir is passed over                               TestRunLeavesNothingBehind
//	spire#93: a signal to everybody ends plugins before their calls       TestSignalsToEverybody
//	terraform#20906: messages end at 4 MiB                                TestMessageSize
//	bufio.Scanner: a long line after the handshake blocks the plugin      TestLongLine
//	Client.Start: a handshake leads elsewhere                             TestForeignAddress

// addScript puts a shell script into a plugin directory. It has a command "plugin", which becomes the plugin of that
// name.
func addScript(t *testing.T, dir, file, script string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, file)
	text := fmt.Sprintf("#!/bin/bash\nplugin() { exec -a %q %q; }\n%s\n", path, self, script)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// runScript runs a script as the plugin "raw_a_one", and returns when it has.
func runScript(t *testing.T, script string) *host {
	t.Helper()
	dir := t.TempDir()
	addScript(t, dir, "raw_a_one", script)
	return runHost(t, dir)
}

func (h *host) expectSuccess(file string) {
	h.t.Helper()
	item := deployItem("succeed")
	item.UID = "of no other item" // for which there may be a call
	outcome, err := h.plugin(file).Call(h.t.Context(), Reconcile, Call{DeployItem: item}, &observer{})
	if err != nil || outcome.Succeeded == nil {
		h.t.Errorf("expected %s to succeed, but found %v (%v)", file, outcome, err)
	}
}

func TestSignalsToEverybody(t *testing.T) {
	t.Parallel()
	h := start(t, "echo")
	id := h.status("echo").Pid
	if group, err := syscall.Getpgid(id); err != nil || group != id {
		t.Errorf("expected a process group of its own, but found %d (%v)", group, err)
	}
	ended := h.underWay("echo", "stop")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM} {
		h.signal("echo", signal)
	}
	h.expectSuccess("echo")
	if s := h.status("echo"); s.Pid != id || s.Calls != 1 {
		t.Errorf("expected process %d with its call, but found %+v", id, s)
	}
	h.end()
	if err := <-ended; err == nil || alive(id) {
		t.Errorf("expected plugin and call to end when the host says so, but found: %v", err)
	}
}

// socket is where a plugin listens.
func (h *host) socket(file string) string {
	h.t.Helper()
	sockets, err := filepath.Glob(h.settings.tempDir + "/*/plugin*")
	if err != nil || len(sockets) != 1 {
		h.t.Fatalf("expected the socket of %s, but found %v (%v)", file, sockets, err)
	}
	return sockets[0]
}

// The plugin is built with the sdk, whose side of the connection has a limit of its own.
func TestMessageSize(t *testing.T) {
	t.Parallel()
	// Under the race detector, on a busy machine, a message of that size takes its time.
	h := runHost(t, pluginDir(t, "echo"), func(o *Options) { o.Silence = 5 * time.Minute })
	for _, size := range []int{5 << 20, 60 << 20} {
		large := strings.Repeat("x", size)
		item := deployItem("large")
		item.Spec.Config = &runtime.RawExtension{Raw: []byte(`"` + large + `"`)}
		if outcome, err := h.plugin("echo").Call(t.Context(), Reconcile, Call{DeployItem: item},
			&observer{}); err != nil || outcome.Succeeded == nil {
			t.Errorf("expected an item of %d MiB to arrive, but found: %v", size>>20, err)
		}
		target := &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: large}
		outcome, err := h.plugin("echo").Call(t.Context(), Reconcile, Call{DeployItem: deployItem("item"), Target: target},
			&observer{})
		if err != nil || len(outcome.Succeeded.Exports) < size {
			t.Errorf("expected exports of %d MiB to arrive, but found: %v", size>>20, err)
		}
	}
}

// The plugin's real standard output is not what go-plugin passes on: the script gets at it behind its back.
func TestLongLine(t *testing.T) {
	t.Parallel()
	h := runScript(t, `plugin | {
	read -r handshake; echo "$handshake"
	head -c 1048576 /dev/zero | tr '\0' x; echo
	echo and on it goes
	cat >/dev/null
}`)
	eventually(t, "the line after the long one", func() bool { return len(h.log.with("and on it goes")) == 1 })
	if long := h.log.with("xxxx"); len(long) != 1 || long[0]["truncated"] != true {
		t.Errorf("expected one record with the beginning of the long line, but found %d", len(long))
	}
	h.expectSuccess("raw_a_one")
}

func TestForeignAddress(t *testing.T) {
	t.Parallel()
	const elsewhere = "must listen on a Unix socket in the directory"
	for name, test := range map[string]struct {
		reason string
		script string // which is given the socket of another plugin
		want   string
	}{
		"tcp": {"somebody else can listen there", `address='tcp|127.0.0.1:1'`, elsewhere},
		"detour": {
			"it is that of another plugin",
			`address="unix|$PLUGIN_UNIX_SOCKET_DIR/../$(basename "$(dirname "$socket")")/$(basename "$socket")"`, elsewhere,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "raw_b_two")
			addScript(t, h.dir, "raw_a_one", fmt.Sprintf("socket=%q\n%s\necho \"1|1|$address|grpc\"; sleep 300",
				h.socket("raw_b_two"), test.script))
			if _, err := h.newPlugin("raw_a_one").start(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: expected %q, but found %v", test.reason, test.want, err)
			}
			if s := h.status("raw_b_two"); s.State != Running || s.Restarted() > 0 {
				t.Errorf("expected the other one to be left alone, but found %+v", s)
			}
		})
	}
}

func TestCurve(t *testing.T) {
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
