package sdk_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// helperEnv makes the test binary a plugin instead of a test.
const helperEnv = "SDK_TEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "":
		os.Exit(m.Run())
	case "plugin":
		sdk.Serve(fake{}, options()...)
	case "hooks":
		sdk.ServeHooks(onlyHooks(), hookOptions()...)
	case "wrong options":
		sdk.Serve(fake{}, sdk.Name("Wrong Name"))
	}
}

// helper returns a command that runs the test binary as a helper.
func helper(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = slices.Concat(env, []string{helperEnv + "=" + role})
	return cmd
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// Arguments that are not the sdk's are the author's.
func TestServeStartedByHand(t *testing.T) {
	t.Parallel()
	const want = "test 1 is a plugin for Pergola. It is not run by hand: put it into the host's plugin directory, " +
		"such as with install --to DIR. To debug it, start it with the argument attachable.\n"
	for _, args := range [][]string{nil, {"--attachable"}, {"attachable", "--verbose"}, {"serve"}} {
		cmd := helper(t, "plugin")
		cmd.Args = append(cmd.Args, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); exitCode(err) != 1 || len(out) > 0 {
			t.Errorf("%q: expected exit code 1, but found %v, stdout %q", args, err, out)
		}
		if diff := cmp.Diff(want, stderr.String()); diff != "" {
			t.Errorf("%q: stderr (-want +got):\n%s", args, diff)
		}
	}
}

func TestServeWithWrongOptions(t *testing.T) {
	t.Parallel()
	cmd := helper(t, "wrong options")
	out, err := cmd.CombinedOutput()
	if code := exitCode(err); code != 2 {
		t.Errorf("expected exit code 2, but found %d (%v)", code, err)
	}
	for _, option := range []string{"sdk.Name", "sdk.Types"} {
		if !strings.Contains(string(out), option) {
			t.Errorf("expected a message about %s, but found: %s", option, out)
		}
	}
	if strings.Count(string(out), "\n") != 1 {
		t.Errorf("expected one line, as of more the host shows the last one alone, but found: %s", out)
	}
}

// A plugin ignores signals, which often reach its whole process group, and ends when the host's end of the lifeline
// is closed.
func TestServeEndsWithTheHostOnly(t *testing.T) {
	t.Parallel()
	config := handshake.Config()
	cmd := helper(t, "plugin",
		config.MagicCookieKey+"="+config.MagicCookieValue,
		handshake.LifelineEnv+"=3",
		"PLUGIN_PROTOCOL_VERSIONS=1")
	ofPlugin, ofHost, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{ofPlugin}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := ofPlugin.Close(); err != nil {
		t.Fatal(err)
	}

	line, err := bufio.NewReader(stdout).ReadString('\n')
	parts := strings.Split(strings.TrimSpace(line), "|")
	if err != nil || len(parts) < 5 || parts[4] != "grpc" {
		t.Fatalf("expected a handshake, but found %q (%v)", line, err)
	}
	conn, err := grpc.NewClient(parts[2]+":"+parts[3], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := deployerv1.NewDeployerServiceClient(conn)

	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if _, err := client.GetInfo(t.Context(), &deployerv1.GetInfoRequest{}); err != nil {
			t.Fatalf("no answer after %s: %v", signal, err)
		}
	}
	if err := ofHost.Close(); err != nil {
		t.Fatal(err)
	}
	// Had a signal ended it, there would be no exit code.
	if code := exitCode(cmd.Wait()); code != 3 {
		t.Errorf("expected exit code 3, but found %d", code)
	}
}
