package sdk_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
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

// attachable starts the helper as a debugger would and returns where it can be attached to.
func attachable(t *testing.T, role string) (cmd *exec.Cmd, address string, rest io.Reader) {
	t.Helper()
	cmd = helper(t, role, "TMPDIR="+shortTempDir(t))
	cmd.Args = append(cmd.Args, "attachable")
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buffered := bufio.NewReader(stdout)
	line, err := buffered.ReadString('\n')
	addresses := regexp.MustCompile(`--attach (unix:///\S+)`).FindAllStringSubmatch(line, -1)
	if err != nil || len(addresses) != 2 || addresses[0][1] != addresses[1][1] {
		t.Fatalf("expected a line with pergola host --attach and pergola plugins run --attach, but found %q (%v)", line, err)
	}
	return cmd, addresses[0][1], buffered
}

// shortTempDir is a temporary directory whose name fits into the address of a socket.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sdk") //nolint:usetesting // its names are too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// end ends an attachable plugin as a user does and checks what it leaves behind.
func end(t *testing.T, cmd *exec.Cmd, address string, rest io.Reader, signal os.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	more, err := io.ReadAll(rest)
	if err != nil || len(more) > 0 {
		t.Errorf("expected one line on standard output, but found more: %q (%v)", more, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("expected exit code 0 after %s, but found %v", signal, err)
	}
	if _, err := os.Stat(filepath.Dir(strings.TrimPrefix(address, "unix://"))); !os.IsNotExist(err) {
		t.Errorf("the directory of the socket is still there (%v)", err)
	}
}

func TestAttachableServesHostsThatComeAndGo(t *testing.T) {
	t.Parallel()
	cmd, address, rest := attachable(t, "plugin")
	dir, err := os.Stat(filepath.Dir(strings.TrimPrefix(address, "unix://")))
	if err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("expected a directory that only the user can enter, but found %v (%v)", dir.Mode(), err)
	}
	first, err := conformance.Attach(t.Context(), address, conformance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	report, err := conformance.Attached(t.Context(), address, conformance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range report.Broken() {
		// The helper is a deployer that accepts everything.
		if finding.Rule != conformance.RuleConfigStrict {
			t.Errorf("%s: %q", finding.Rule, finding.Messages)
		}
	}
	// A host that takes the process for its own must not end what somebody is debugging.
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	err = conn.Invoke(t.Context(), "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if grpcstatus.Code(err) != codes.Unimplemented {
		t.Errorf("expected the answer Unimplemented, but found %v", err)
	}
	if info := first.Info(); info.Name != "test" {
		t.Errorf("expected the plugin test, but found %v", info)
	}
	end(t, cmd, address, rest, os.Interrupt)
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
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := conformance.Start(t.Context(), binary, conformance.Options{
		Env: []string{helperEnv + "=plugin"}, Args: []string{"attachable"}, Output: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	plugin.Close()
}
