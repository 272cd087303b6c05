package plugin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pergola-deploy/pergola/host/internal/plugin/output"
	"github.com/pergola-deploy/pergola/host/internal/plugin/program"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// stopGrace is how long a process may take to end after it was asked to; then its whole group is killed.
const stopGrace = 3 * time.Second

// lastWordsTime is how old the last words of a plugin may be when it has ended.
const lastWordsTime = 10 * time.Second

// launched is a process that the host has started.
type launched struct {
	plugin *goplugin.Client
	runner *commandRunner
	output *output.Log
	// streams are what go-plugin writes the plugin's output to. Each has a writer of its own, so that half a line of one does not
	// spoil a line of another.
	streams []io.Closer
}

var _ link = (*launched)(nil)

// launch starts a program and shakes hands. It returns when the timeout has passed or ctx has ended, at most a few seconds
// later. Nothing is left running when it fails.
func launch(ctx context.Context, program *program.Program, profile Profile, s *settings, log *slog.Logger) (*process, error) {
	tlsConfig, certificate, err := handshake.ClientTLS()
	if err != nil {
		return nil, err
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	out := output.New(output.Options{Log: log, Clock: s.clock})
	syncStdout, syncStderr := out.Writer("stdout"), out.Writer("stderr")
	r := &commandRunner{
		program: program, profile: profile, settings: s, log: log, certificate: certificate,
		stderr: out.Writer("stderr"), stray: out.Writer("stdout"), kill: kill, ended: make(chan struct{}),
	}
	l := &launched{runner: r, output: out, streams: []io.Closer{r.stderr, r.stray, syncStdout, syncStderr}}
	l.plugin = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        tlsConfig,
		SkipHostEnv:      true,
		StartTimeout:     s.startTimeout,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: s.socketDir},
		// go-plugin logs what it does step by step; what matters of it comes back as errors.
		Logger: hclog.NewNullLogger(),
		// What the plugin prints after the handshake arrives here if it was built with go-plugin.
		SyncStdout:      syncStdout,
		SyncStderr:      syncStderr,
		GRPCDialOptions: dialOptions(),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, socketDir string) (runner.Runner, error) {
			return r, r.prepare(life, spec.Env, socketDir)
		},
	})

	// go-plugin takes no context, and does not count the time to connect; but whatever it waits for ends with the process.
	launching, cancel := context.WithTimeout(ctx, s.startTimeout)
	defer cancel()
	defer context.AfterFunc(launching, kill)()
	protocol, err := l.plugin.Client()
	if err == nil {
		err = launching.Err()
	}
	if err != nil {
		l.stop()
		return nil, r.startError(launching, err, out.Tail(2*s.startTimeout)) // all that it has said
	}
	// AllowedProtocols leaves nothing but gRPC.
	grpcClient, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		l.stop()
		return nil, errors.New("is no Pergola plugin: it does not speak gRPC")
	}
	return &process{
		link:   l,
		client: deployerv1.NewDeployerServiceClient(grpcClient.Conn),
		health: grpc_health_v1.NewHealthClient(grpcClient.Conn),
		calls:  newCalls(), clock: s.clock, log: log, confinement: r.confinement(),
	}, nil
}

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
		),
		grpc.WithInitialWindowSize(handshake.WindowBytes),
		grpc.WithInitialConnWindowSize(4 * handshake.WindowBytes),
		grpc.WithChainStreamInterceptor(withoutBroker),
	}
}

// withoutBroker keeps go-plugin from listening to the plugin's broker, which nobody here uses: whatever the plugin says there becomes a
// goroutine and a piece of memory that stays.
func withoutBroker(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if strings.HasPrefix(method, "/plugin.GRPCBroker/") {
		return nil, status.Error(codes.Unimplemented, "the host has no use for a broker")
	}
	return open(ctx, desc, conn, method, opts...)
}

func (l *launched) ended() <-chan struct{} { return l.runner.ended }

func (l *launched) state() string { return l.runner.launch.Cmd.ProcessState.String() }

func (l *launched) pid() int { return l.runner.launch.Cmd.Process.Pid }

func (l *launched) foreign() bool { return false }

func (l *launched) kill() { l.runner.kill() }

func (l *launched) memory() uint64 {
	bytes, err := sandbox.GroupResidentBytes(l.pid())
	if err != nil {
		return 0 // it has ended
	}
	return bytes
}

func (l *launched) droppedLines() uint64 {
	lines, _ := l.output.Dropped()
	return lines
}

func (l *launched) stop() {
	asked := make(chan struct{})
	go func() {
		// Kill asks over gRPC without a deadline, which a wedged process never answers; killing the group below ends it.
		defer close(asked)
		l.plugin.Kill()
	}()
	select {
	case <-asked:
	case <-time.After(stopGrace):
	}
	l.runner.kill()
	<-asked
	for _, w := range l.streams {
		_ = w.Close() // it never fails
	}
}

// logLastWords gives whoever looks for the reason of a crash what the plugin has said last, in one record. A plugin that is killed
// says nothing, and what it has said before has nothing to do with that.
func (l *launched) logLastWords(log *slog.Logger) {
	if tail := l.output.Tail(lastWordsTime); len(tail) > 0 {
		log.Error("last words of the plugin", "pid", l.pid(), "lines", tail)
	}
}
