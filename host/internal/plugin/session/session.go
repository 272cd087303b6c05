// Package session makes the calls of one run of a plugin: the conversation of each call, and the account of calls which
// end with the process.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Session is one run of a plugin. Serve comes before any call.
type Session struct {
	run    *launch.Process
	client deployerv1.DeployerServiceClient
	health grpc_health_v1.HealthClient
	calls  calls
	ending ending
	log    *slog.Logger
	info   *hostside.Info
	grants Grants
}

// New returns the session of a process.
func New(run *launch.Process, log *slog.Logger) *Session {
	return &Session{
		run: run, log: log, calls: calls{running: map[*conversation]bool{}},
		client: deployerv1.NewDeployerServiceClient(run.Conn), health: grpc_health_v1.NewHealthClient(run.Conn),
	}
}

// Serve sets the plugin's description and grants, before the first call.
func (s *Session) Serve(info *hostside.Info, grants Grants) { s.info, s.grants = info, grants }

// Calls counts the calls under way.
func (s *Session) Calls() int { return s.calls.count() }

// begin notes a running call; the caller removes it at its end. The error is ErrNotRunning.
func (s *Session) begin(c *conversation) error {
	if s.run.HasEnded() {
		return ErrNotRunning // the call is not to blame
	}
	s.calls.add(c)
	return nil
}

// translate turns an error of gRPC into one about the call. Others stay.
func (s *Session) translate(ctx context.Context, c *conversation, err error) error {
	if _, ofGRPC := status.FromError(err); !ofGRPC {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("call stopped: %w", context.Cause(ctx))
	}
	switch status.Code(err) { //nolint:exhaustive // of the other codes the text is enough
	case codes.DeadlineExceeded:
		return fmt.Errorf("call: %w", context.DeadlineExceeded)
	case codes.Unavailable, codes.Canceled, codes.Internal:
		// The connection breaks a moment before the end of the process is known.
		timer := time.NewTimer(launch.StopGrace)
		defer timer.Stop()
		select {
		case <-s.run.Ended:
			return s.ending.errorOf(c, s.calls.count())
		case <-timer.C:
		}
	}
	return fmt.Errorf("%w: %s", ErrProtocol, hostside.Bounded(status.Convert(err).Message()))
}

// KillFor kills the process, and reports whether it was the first to do so.
func (s *Session) KillFor(reason error, blame Blame) bool {
	first := s.ending.kill(reason, blame)
	if first {
		s.run.Kill()
	}
	return first
}

// MarkStopped records that the host stopped the process, so running calls are not blamed.
func (s *Session) MarkStopped() {
	if !s.run.HasEnded() {
		s.ending.stop()
	}
}

// EndError returns the reason for the end of the process: that of KillFor, or ErrEnded.
func (s *Session) EndError() error {
	if killed := s.ending.reason(); killed != nil {
		return fmt.Errorf("its process was killed: %w", killed)
	}
	return fmt.Errorf("%w: %s", ErrEnded, s.run.Exit())
}

// Silent is called at each health check, and blames a call in which the plugin was silent during so many of them; nil
// for none.
func (s *Session) Silent(checks int) *Blame {
	if silent := s.calls.silent(checks); silent != nil {
		return &Blame{others: true, call: silent}
	}
	return nil
}

// ErrUnwell reports that a plugin runs but cannot go on; its own reason follows.
var ErrUnwell = errors.New("it is unhealthy")

// Check asks for the health of the plugin. Any answer is healthy but for "not serving" and ErrUnwell.
func (s *Session) Check(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer, err := s.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	switch status.Code(err) {
	case codes.OK:
		if answer.GetStatus() == grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			return errors.New("it reports NOT_SERVING")
		}
		return nil
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		return err
	case codes.FailedPrecondition:
		return fmt.Errorf("%w: %s", ErrUnwell, hostside.Bounded(status.Convert(err).Message()))
	default:
		return nil
	}
}

// withTrace adds the W3C trace context to a call, if there is a trace.
func withTrace(ctx context.Context) context.Context {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for key, value := range carrier {
		ctx = metadata.AppendToOutgoingContext(ctx, key, value)
	}
	return ctx
}
