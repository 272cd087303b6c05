package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/proto/handshake"
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
		sdk.ServeHooks(calmHooks(), hookOptions()...)
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
		"such as with install --to DIR. To debug it, start it with the argument attachable, " +
		"or with attachable and the path of a socket, such as /tmp/test.sock.\n"
	for _, args := range [][]string{
		nil, {"--attachable"}, {"attachable", "--verbose"}, {"attachable", "127.0.0.1:7777"}, {"serve"},
	} {
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

// TestServeEndsWithTheHost: a plugin ends when the host's end of the lifeline is closed.
func TestServeEndsWithTheHost(t *testing.T) {
	t.Parallel()
	config := handshake.Config()
	cmd := helper(t, "plugin", config.MagicCookieKey+"="+config.MagicCookieValue, handshake.LifelineEnv+"=3",
		"PLUGIN_PROTOCOL_VERSIONS=1")
	ofPlugin, ofHost, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{ofPlugin}
	if err := errors.Join(cmd.Start(), ofPlugin.Close(), ofHost.Close()); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(cmd.Wait()); code != 3 {
		t.Errorf("expected exit code 3, but found %d", code)
	}
}
