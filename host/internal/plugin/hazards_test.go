package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"debug/elf"
	"encoding/binary"
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

// What go-plugin does to a host that trusts it, by where it was met first, and that it does not happen here. Other
// tests show the rest:
//
//	go-plugin#306: a client is used again after a failed start            TestStartsThatFailAreTriedAgain
//	go-plugin#31, #305: a plugin that has ended stays away                TestRestart
//	Client.Ping has no deadline                                           TestWedgedProcess
//	go-plugin#136: children outlive a plugin                              TestEndKillsTheWholeGroup, TestCrashKillsTheWholeGroup
//	spire#93: a plugin outlives its host                                  TestPluginsEndWithTheHost
//	go-plugin#103: the environment leaks                                  TestEnvironmentIsAnAllowList
//	terraform#22198: the path of the socket is too long                   TestOpenWithLongPathForSockets
//	SecureConfig: a file is changed after the check                       TestVerification, TestRestartRunsWhatWasLoaded
//	terraform#12580: the message about versions misleads                  TestWhatIsNoPlugin, TestVersionError
//	go-plugin#164, #199: something is printed before the handshake        TestWhatIsNoPlugin
//	UnixSocketConfig.TempDir is passed over                               TestRunLeavesNothingBehind
func TestHazards(t *testing.T) { //nolint:paralleltest // some change the environment of the whole process
	for _, hazard := range []struct {
		name string
		show func(*testing.T)
	}{
		{"terraform#38940: Client.Kill has no deadline", hazardKill},
		{"spire#93: a signal to everybody ends plugins before their calls", hazardSignals},
		{"go-plugin#103: the host's variables win", hazardOverriddenEnvironment},
		{"SecureConfig: the sum of a restart is that of both", hazardVerifiedRestart},
		{"terraform#20906: messages end at 4 MiB", hazardMessageSize},
		{"go-plugin#38, velero#5972: a line on standard error ends the host", hazardLogLines},
		{"bufio.Scanner: a long line after the handshake blocks the plugin", hazardLongLine},
		{"Client.Start: a handshake leads elsewhere", hazardForeignAddress},
		{"go-plugin#149, #183: nobody knows why it does not start", hazardOpaqueStart},
		{"AutoMTLS: the curve is known to Go only", hazardCurve},
	} {
		t.Run(hazard.name, hazard.show)
	}
}

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

// expectProblem waits until a plugin does not run for the reason that the texts are part of.
func (h *host) expectProblem(file string, texts ...string) {
	h.t.Helper()
	eventually(h.t, "a problem of "+file, func() bool { return h.status(file).Problem != nil })
	problem := h.Ready()
	for _, text := range append(texts, "plugin "+file+": ") {
		if problem == nil || !strings.Contains(problem.Error(), text) {
			h.t.Errorf("expected %q, but found: %v", text, problem)
		}
	}
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

func hazardKill(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	id := h.status("raw").Pid
	h.signal("raw", syscall.SIGSTOP)
	within(t, patience, "the end of a stopped plugin", h.end)
	if alive(id) {
		t.Errorf("the process %d lives", id)
	}
}

func hazardSignals(t *testing.T) {
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

// Not parallel: it changes the environment of the whole process.
func hazardOverriddenEnvironment(t *testing.T) {
	t.Setenv("HOME", "/root")
	t.Setenv("PLUGIN_PROTOCOL_VERSIONS", "7")
	t.Setenv("PERGOLA_LOG_LEVEL", "error")
	h := start(t, "env")
	found := map[string][]string{}
	for line := range strings.Lines(left(t, h.dir, "env")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		found[name] = append(found[name], value)
	}
	for name, want := range map[string]string{
		"HOME": h.settings.tempDir, "TMPDIR": h.settings.tempDir, "PLUGIN_PROTOCOL_VERSIONS": "1",
		"PERGOLA_LOG_LEVEL": "INFO",
	} {
		if values := found[name]; len(values) != 1 || !strings.HasPrefix(values[0], want) {
			t.Errorf("expected %s to be %s and nothing else, but found %q", name, want, values)
		}
	}
}

// socket is where a plugin listens.
func (h *host) socket(file string) string {
	h.t.Helper()
	sockets, err := filepath.Glob(h.settings.socketDir + "/*/plugin*")
	if err != nil || len(sockets) != 1 {
		h.t.Fatalf("expected the socket of %s, but found %v (%v)", file, sockets, err)
	}
	return sockets[0]
}

// expectRestart crashes a plugin and waits until it takes calls again.
func (h *host) expectRestart(file string) {
	h.t.Helper()
	before := h.status(file).Restarted()
	h.crash(file)
	eventually(h.t, "a restart", func() bool {
		s := h.status(file)
		return s.State == Running && s.Restarted() > before
	})
}

func hazardVerifiedRestart(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "raw_a_one")
	h := runHost(t, dir, requireSums(t, dir))
	for range 2 {
		h.expectRestart("raw_a_one")
	}
}

// The plugin is built with the sdk, whose side of the connection has a limit of its own.
func hazardMessageSize(t *testing.T) {
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

func hazardLogLines(t *testing.T) {
	t.Parallel()
	lines := []string{
		`{"@message":1}`, `{"@message":"text","@level":1}`, `{"@message":"text","@level":"info","@timestamp":1}`,
		`{"@message":[],"@level":{},"@timestamp":null}`, `{"@message":"no level","@timestamp":"yesterday"}`,
		`{"@level":"info"`,
	}
	h := runScript(t, "cat >&2 <<'end'\n"+strings.Join(lines, "\n")+"\nend\nplugin")
	for _, line := range lines {
		eventually(t, "the line "+line, func() bool {
			for _, r := range h.log.all() {
				if text, _ := r["msg"].(string); r["plugin"] == "raw_a_one" && (text == line || text == "text") {
					return true
				}
			}
			return false
		})
	}
	h.expectSuccess("raw_a_one")
}

// The plugin's real standard output is not what go-plugin passes on: the script gets at it behind its back.
func hazardLongLine(t *testing.T) {
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

func hazardForeignAddress(t *testing.T) {
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

func hazardOpaqueStart(t *testing.T) {
	t.Parallel()
	var otherCPU strings.Builder
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_SPARCV9), Version: uint32(elf.EV_CURRENT),
		Ehsize: 64}
	copy(header.Ident[:], elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}))
	if err := binary.Write(&otherCPU, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"not executable": {"#!/bin/sh\n", 0o644, "is not executable (mode 0644); chmod 0755"},
		"another CPU": {otherCPU.String(), 0o755,
			"is no program for this machine, and no script; build it with GOOS=linux GOARCH="},
		"missing interpreter": {"#!/no/such/interpreter\n", 0o755,
			"the interpreter that its first line names does not exist here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte(test.content), test.mode); err != nil {
				t.Fatal(err)
			}
			openHost(t, dir).run().expectProblem("file", test.want)
		})
	}
}

func hazardCurve(t *testing.T) {
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
