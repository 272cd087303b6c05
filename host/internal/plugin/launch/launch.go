// Package launch verifies the program of a plugin, runs it confined, and connects to it by hashicorp/go-plugin.
//
// A Program is a file of the plugin directory, hashed and held open: each start executes the bytes of its hash.
package launch

import (
	"context"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin/processlog"
	"github.com/pergola-deploy/pergola/proto/handshake"
	"github.com/pergola-deploy/pergola/proto/wire"
)

// StopGrace is the time of a process to end after the request; then it is killed.
const StopGrace = 3 * time.Second

// Settings are common to all plugins of a host.
type Settings struct {
	// TempDir takes a directory of each process, for its socket and temporary files.
	TempDir string
	// Timeout of a start with its handshake.
	Timeout time.Duration
	// LogLevel is the level asked of the plugins.
	LogLevel slog.Level
	Clock    clock.PassiveClock
}

// Launch starts the opened program and shakes hands. It returns at the end of the timeout or of ctx, at most a few
// seconds later. After an error no process is left.
func (p *Program) Launch(ctx context.Context, profile Profile, s Settings, log *slog.Logger) (*Process, error) {
	tlsConfig, certificate, err := handshake.ClientTLS()
	if err != nil {
		return nil, err
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	out := newOutputs(processlog.New(log, s.Clock))
	r := &runner{
		order: order{program: p, profile: profile, logLevel: s.LogLevel, certificate: certificate, log: log},
		out:   out, kill: kill, ended: make(chan struct{}),
	}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        tlsConfig,
		SkipHostEnv:      true,
		StartTimeout:     s.Timeout,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: s.TempDir},
		// go-plugin logs each of its steps; the important ones return as errors.
		Logger:          hclog.NewNullLogger(),
		SyncStdout:      out.syncStdout,
		SyncStderr:      out.syncStderr,
		GRPCDialOptions: dialOptions(),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, dir string) (gorunner.Runner, error) {
			if r.startErr = r.prepare(life, spec.Env, dir); r.startErr != nil {
				r.end()
			}
			return r, r.startErr
		},
	})
	stop := func() {
		// Kill asks over gRPC without a deadline, and a wedged process never answers. A kill ends the request.
		defer time.AfterFunc(StopGrace, kill).Stop()
		client.Kill()
		r.wait()
		out.close()
	}

	// go-plugin takes no context, and its timeout excludes the connection; but all of its waiting ends with the process.
	launching, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	defer context.AfterFunc(launching, kill)()
	protocol, err := client.Client()
	if err == nil {
		err = launching.Err()
	}
	if err != nil {
		stop()
		return nil, r.explain(launching, s.Timeout, err)
	}
	return &Process{
		Conn:   protocol.(*goplugin.GRPCClient).Conn, //nolint:forcetypeassert // AllowedProtocols has no other
		Output: out.log, Confinement: profile.confinement(), Ended: r.ended, Kill: kill, Stop: stop, cmd: r.cmd,
	}, nil
}

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(wire.Codec()),
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
		),
		grpc.WithInitialWindowSize(handshake.WindowBytes),
		grpc.WithInitialConnWindowSize(4 * handshake.WindowBytes),
	}
}

// outputs are the streams of a process, each with a writer: half a line of one must not spoil a line of another.
type outputs struct {
	log    *processlog.Log
	first  *firstLine // standard output
	stderr *processlog.Writer
	// syncStdout and syncStderr take the output after the handshake of a plugin which was built with go-plugin.
	syncStdout, syncStderr *processlog.Writer
}

func newOutputs(log *processlog.Log) *outputs {
	return &outputs{
		log: log, first: newFirstLine(log.Writer("stdout")), stderr: log.Writer("stderr"),
		syncStdout: log.Writer("stdout"), syncStderr: log.Writer("stderr"),
	}
}

func (o *outputs) close() {
	for _, stream := range []io.Closer{o.first, o.stderr, o.syncStdout, o.syncStderr} {
		_ = stream.Close() // it never fails
	}
}
