package session

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
	"github.com/pergola-deploy/pergola/test/logged"
)

// peer is a plugin without the sdk, which would not let it break the protocol. Each function does a call.
type peer struct {
	deployerv1.UnimplementedDeployerServiceServer

	reconcile func(wire) error
	render    func(context.Context) (*deployerv1.RenderResponse, error)
	diff      func(*deployerv1.Start) *deployerv1.DiffResponse
	hooks     func() ([]*deployerv1.HookOutcome, error)
	watch     func(watchWire) error
	validate  func(*deployerv1.ValidateRequest) (*deployerv1.ValidateResponse, error)
}

// watchWire is the plugin's side of a watch.
type watchWire = grpc.BidiStreamingServer[deployerv1.WatchHostMessage, deployerv1.WatchPluginMessage]

func (p *peer) WatchItems(stream watchWire) error { return p.watch(stream) }

// wire is the plugin's side of a call.
type wire = grpc.BidiStreamingServer[deployerv1.HostMessage, deployerv1.PluginMessage]

func (p *peer) Reconcile(call wire) error {
	if _, err := call.Recv(); err != nil {
		return err
	}
	return p.reconcile(call)
}

func (p *peer) Render(ctx context.Context, _ *deployerv1.RenderRequest) (*deployerv1.RenderResponse, error) {
	return p.render(ctx)
}

func (p *peer) Diff(_ context.Context, in *deployerv1.DiffRequest) (*deployerv1.DiffResponse, error) {
	return p.diff(in.GetStart()), nil
}

func (p *peer) Validate(
	_ context.Context, in *deployerv1.ValidateRequest,
) (*deployerv1.ValidateResponse, error) {
	return p.validate(in)
}

func (p *peer) RunHooks(context.Context, *deployerv1.RunHooksRequest) (*deployerv1.RunHooksResponse, error) {
	outcomes, err := p.hooks()
	return &deployerv1.RunHooksResponse{Outcomes: outcomes}, err
}

// says answers a call with these messages.
func says(messages ...*deployerv1.PluginMessage) func(wire) error {
	return func(call wire) error {
		for _, m := range messages {
			if err := call.Send(m); err != nil {
				return err
			}
		}
		return nil
	}
}

// connection is the session of a peer.
type connection struct {
	*Session
	crash func() // ends the connection, as the end of a process does
	log   *logged.Records
}

// connect serves a peer until the end of the test.
func connect(t *testing.T, p *peer) connection {
	t.Helper()
	dir, err := os.MkdirTemp("", "peer") //nolint:usetesting // whose paths are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	deployerv1.RegisterDeployerServiceServer(server, p)
	go func() { _ = server.Serve(listener) }() // it ends with Stop
	t.Cleanup(server.Stop)
	out := &logged.Records{}
	log := out.Logger()
	settings := launch.Settings{Timeout: time.Minute, Clock: clock.RealClock{}}
	process, err := launch.Attach(t.Context(), "unix://"+listener.Addr().String(), settings, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Stop)
	s := New(process, log)
	s.Serve(&hostside.Info{}, Grants{})
	return connection{Session: s, crash: server.Stop, log: out}
}

func result(r *deployerv1.Result) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{Result: r}}
}

func succeeded(exports []byte) *deployerv1.PluginMessage {
	return result(
		&deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{Exports: exports}}},
	)
}

func wireFailure(messages ...string) *deployerv1.Failed {
	out := &deployerv1.Failed{}
	for _, message := range messages {
		out.Errors = append(out.Errors, &deployerv1.Error{Operation: "Do", Reason: "Wrong", Message: message})
	}
	return out
}
