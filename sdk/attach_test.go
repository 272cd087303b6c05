package sdk_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// A plugin that is started by hand serves hosts that come and go, until a user interrupts it.
func TestAttachable(t *testing.T) {
	t.Parallel()
	temp, err := os.MkdirTemp("", "sdk") //nolint:usetesting // its names do not fit into the address of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temp) })
	cmd := helper(t, "plugin", "TMPDIR="+temp)
	cmd.Args, cmd.Stderr = append(cmd.Args, "attachable"), t.Output()
	pipe, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	stdout := bufio.NewReader(pipe)
	line, err := stdout.ReadString('\n')
	addresses := regexp.MustCompile(`--attach (unix:///\S+)`).FindAllStringSubmatch(line, -1)
	if err != nil || len(addresses) != 2 || addresses[0][1] != addresses[1][1] {
		t.Fatalf("expected a line with pergola host --attach and pergola plugins run --attach, but found %q (%v)", line, err)
	}
	address := addresses[0][1]
	socketDir := filepath.Dir(strings.TrimPrefix(address, "unix://"))
	if dir, err := os.Stat(socketDir); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("expected a directory that only the user can enter, but found %v (%v)", dir, err)
	}
	report, reportErr := conformance.Attached(t.Context(), address, conformance.Options{})
	// A host that comes later and takes the process for its own must not end what somebody is debugging.
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err := errors.Join(reportErr, err); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, finding := range report.Broken() {
		// The helper is a deployer that accepts everything.
		if finding.Rule != conformance.RuleConfigStrict {
			t.Errorf("%s: %q", finding.Rule, finding.Messages)
		}
	}
	err = conn.Invoke(t.Context(), "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if grpcstatus.Code(err) != codes.Unimplemented {
		t.Errorf("expected the answer Unimplemented, but found %v", err)
	}
	signalErr := cmd.Process.Signal(os.Interrupt)
	more, readErr := io.ReadAll(stdout)
	if err := errors.Join(signalErr, readErr, cmd.Wait()); err != nil || len(more) > 0 {
		t.Errorf("expected exit code 0 after an interrupt and one line on standard output, but found %v and %q", err, more)
	}
	if _, err := os.Stat(socketDir); !os.IsNotExist(err) {
		t.Errorf("the directory of the socket is still there (%v)", err)
	}
}

func TestInstallArgument(t *testing.T) {
	t.Parallel()
	cmd := helper(t, "plugin")
	cmd.Args = append(cmd.Args, "install", "--to", t.TempDir())
	if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), "test 1 is installed as") {
		t.Errorf("expected that it is installed, but found %q (%v)", out, err)
	}
}

// An operator may give any arguments to a plugin: one that a host starts shakes hands with it.
func TestHostComesBeforeTheArgument(t *testing.T) {
	t.Parallel()
	plugin, err := conformance.Start(t.Context(), helper(t, "plugin").Path, conformance.Options{
		Env: []string{helperEnv + "=plugin"}, Args: []string{"attachable"}, Output: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	plugin.Close()
}
