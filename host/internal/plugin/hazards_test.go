package plugin

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// What go-plugin does to a host that trusts it, by where it was met first, and the tests that show that it does not
// happen here:
//
//	terraform#38940: Client.Kill has no deadline                        TestEndIsBounded
//	go-plugin#38, velero#5972: a line on standard error ends the host   processlog.TestLogOfNoRecords
//	go-plugin#149, #183: the reason of a failed start is lost           TestWhatIsNoPlugin
//	AutoMTLS: the curve is known to Go only                             launch.TestCertificate
//	go-plugin#306: a client is used again after a failed start          TestClashes
//	go-plugin#31, #305: a plugin that has ended stays away              TestRestart
//	Client.Ping has no deadline                                         TestWedgedProcess
//	go-plugin#136: children outlive a plugin                            TestWhatAPluginHasStartedEndsWithIt
//	spire#93: a plugin outlives its host                                TestPluginsEndWithTheHost
//	go-plugin#103: the environment leaks                                launch.TestEnvironmentIsAnAllowList
//	terraform#22198: the path of the socket is too long                 TestOpenWithLongPathForSockets
//	SecureConfig: a file is changed after the check                     TestVerification, launch.TestOpenAgain
//	terraform#12580: the message about versions misleads                launch.TestExplainHandshake
//	go-plugin#164, #199: something is printed before the handshake      TestWhatIsNoPlugin
//	UnixSocketConfig.TempDir is passed over                             TestRunLeavesNothingBehind
//	spire#93: a signal to everybody ends plugins before their calls     TestSignalsToEverybody
//	terraform#20906: messages end at 4 MiB                              TestMessageSize
//	bufio.Scanner: a long line after the handshake blocks the plugin    launch.TestFirstLine
//	Client.Start: a handshake leads elsewhere                           launch.TestPluginToHost

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

// The plugin is built with the sdk, whose side of the connection has a limit of its own.
func TestMessageSize(t *testing.T) {
	t.Parallel()
	// Under the race detector, on a busy machine, a message of that size takes its time.
	h := runHost(t, pluginDir(t, "echo"), func(o *Options) { o.Silence = 5 * time.Minute })
	const size = 60 << 20
	target := &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: strings.Repeat("x", size)}
	outcome, err := h.plugin("echo").Call(t.Context(), Reconcile, Call{DeployItem: deployItem("item"), Target: target},
		&observer{})
	if err != nil || len(outcome.Succeeded.Exports) < size {
		t.Errorf("expected a Target of 60 MiB to arrive, and exports of its size, but found: %v", err)
	}
}
