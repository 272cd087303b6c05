package sdktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// inherited are the environment variables that a plugin gets from the test. The host, too, passes only a few.
var inherited = []string{"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// Start starts a plugin binary as the host does and ends it with the test. What the plugin writes to its standard output and
// standard error goes to the log of the test. A program that is no plugin fails the test at once. env adds environment
// variables of the form "name=value".
func Start(t testing.TB, binary string, env ...string) *Plugin {
	t.Helper()
	out := newOutput(t)
	// Not t.TempDir, whose long names do not fit into the address of a socket.
	sockets, err := os.MkdirTemp("", "sdktest") //nolint:usetesting // see above
	if err != nil {
		t.Fatalf("sdktest: create directory for the plugin's socket: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })

	lifelineOfPlugin, lifeline, err := os.Pipe()
	if err != nil {
		t.Fatalf("sdktest: create lifeline: %v", err)
	}
	defer func() { _ = lifelineOfPlugin.Close() }()

	cmd := exec.Command(binary) //nolint:noctx // the process lives as long as the test and is ended below
	cmd.Env = append(environment(sockets), env...)
	cmd.ExtraFiles = []*os.File{lifelineOfPlugin} // file descriptor 3 of the plugin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {handshake.PluginName: &clientPlugin{}}},
		Cmd:              cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		GRPCDialOptions:  []grpc.DialOption{messageSize()},
		Stderr:           out,
		SyncStdout:       out,
		SyncStderr:       out,
		// With logging off go-plugin does not parse what the plugin writes. Its parser panics on some of it.
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard}),
	})
	t.Cleanup(func() {
		end(client, cmd)
		_ = lifeline.Close()
		out.close()
	})
	service, err := dispense(client)
	if err != nil {
		t.Fatalf("sdktest: start plugin %q: %v", binary, err)
	}
	return &Plugin{t: t, client: service}
}

func environment(sockets string) []string {
	env := []string{
		goplugin.EnvUnixSocketDir + "=" + sockets,
		handshake.LifelineEnv + "=" + strconv.Itoa(3),
		handshake.LogLevelEnv + "=debug",
	}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// dispense starts the process, if need be, and returns its service.
func dispense(client *goplugin.Client) (deployerv1.DeployerServiceClient, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	raw, err := protocol.Dispense(handshake.PluginName)
	if err != nil {
		return nil, fmt.Errorf("dispense %q: %w", handshake.PluginName, err)
	}
	service, ok := raw.(deployerv1.DeployerServiceClient)
	if !ok {
		return nil, fmt.Errorf("dispense %q: unexpected %T", handshake.PluginName, raw)
	}
	return service, nil
}

// end ends the process in order, or by force when it does not listen, and whatever it has started.
func end(client *goplugin.Client, cmd *exec.Cmd) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.Kill() // has no time limit of its own
	}()
	select {
	case <-ended:
	case <-time.After(endWithin):
	}
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	<-ended
}

// clientPlugin tells go-plugin how to make a client of the service. The server side is the sdk's.
type clientPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

var _ goplugin.GRPCPlugin = (*clientPlugin)(nil)

func (*clientPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("sdktest has no server of the protocol")
}

func (*clientPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return deployerv1.NewDeployerServiceClient(conn), nil
}
