package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// interruptGrace is the time to stop after ErrInterrupted.
const interruptGrace = 500 * time.Millisecond

func (s *Session) open(ctx context.Context, op Operation) (stream, error) {
	rpc, ok := map[Operation]func(context.Context, ...grpc.CallOption) (stream, error){
		Reconcile: s.client.Reconcile, Delete: s.client.Delete, Abort: s.client.Abort,
		ForceReconcile: s.client.ForceReconcile, CheckHealth: s.client.CheckHealth,
	}[op]
	if !ok {
		return nil, fmt.Errorf("open call: no operation %q", op)
	}
	return rpc(ctx)
}

// Call makes one operation and blocks until its result. At the end of ctx it asks the plugin to stop, and cancels the
// call after grace; at the deadline it cancels at once.
func (s *Session) Call(
	ctx context.Context, op Operation, c Call, grace time.Duration, observer Observer,
) (*hostside.Outcome, error) {
	start, err := s.startOf(ctx, c)
	if err != nil {
		return nil, err
	}
	start.ResolvesTargets, start.ResolvesRegistryCredentials = true, true
	conversation := newConversation(observer)
	ctx = withTrace(ctx)
	if err := s.begin(conversation); err != nil {
		return nil, err
	}
	defer s.calls.remove(conversation)
	callCtx, cancel := callContext(ctx, c.Deadline)
	defer cancel()
	if conversation.stream, err = s.open(callCtx, op); err != nil {
		return nil, s.translate(ctx, conversation, err)
	}
	defer conversation.close()
	if err := conversation.send(hostside.StartMessage(start)); err != nil {
		return nil, s.translate(ctx, conversation, err)
	}
	stopped := make(chan struct{})
	defer close(stopped)
	go stopWith(ctx, stopped, grace, conversation, cancel)

	result, err := conversation.result(callCtx)
	if err != nil {
		return nil, s.translate(ctx, conversation, err)
	}
	if !conversation.ends(cancel) {
		s.log.Warn("plugin goes on with a call after its result; the call is cancelled", "operation", string(op),
			"deployitem", c.DeployItem.Namespace+"/"+c.DeployItem.Name)
	}
	outcome, err := hostside.ReadResult(result)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if len(outcome.Errors) > 0 && !c.Deadline.IsZero() && !time.Now().Before(c.Deadline) {
		return nil, context.DeadlineExceeded // the clock of the plugin may be a moment ahead of callCtx
	}
	return outcome, nil
}

// callContext outlives ctx, so that the plugin is asked to stop before the call is cancelled, but not the deadline.
func callContext(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	ctx = context.WithoutCancel(ctx)
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}

// stopWith ends a call at the end of ctx: first in order, then, after grace, by cancelling it. It ends with the call.
func stopWith(ctx context.Context, ended <-chan struct{}, grace time.Duration, c *conversation,
	cancel context.CancelFunc) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		grace = min(grace, interruptGrace)
	}
	// Sending blocks while the plugin does not read, so the time runs from here.
	timer := time.AfterFunc(grace, cancel)
	defer timer.Stop()
	if err := c.send(hostside.StopMessage(context.Cause(ctx).Error())); err != nil {
		cancel()
	}
	<-ended
}

// startOf returns the first message of a call. The error is that of the grants, or ErrNotRunning for a call prepared
// for an earlier process with other capabilities.
func (s *Session) startOf(ctx context.Context, c Call) (*deployerv1.Start, error) {
	if c.PickUpPending && !s.info.Capabilities.LatePickUp {
		return nil, fmt.Errorf("%w as it was: it does not wait for the pick-up any more", ErrNotRunning)
	}
	in := hostside.Call{
		DeployItem: c.DeployItem, JobID: c.DeployItem.Status.JobID, Forced: c.Forced, Children: c.Children,
		Claims: c.Claims, Target: c.Target,
	}
	if s.info.Capabilities.ContextCredentials {
		if c.Credentials == nil {
			return nil, fmt.Errorf("%w as it was: it takes credentials now, but they were not read for this call", ErrNotRunning)
		}
		in.Credentials = c.Credentials
	}
	if s.info.Capabilities.ContextOCMConfig {
		if c.OCMConfig == nil && c.Context != nil && c.Context.OCMConfig != nil {
			return nil, fmt.Errorf("%w as it was: it takes ocmConfig now, but it was not read for this call", ErrNotRunning)
		}
		in.OCMConfig = c.OCMConfig
	}
	if c.Context != nil {
		in.Context = lscontext.WithoutCredentials(c.Context)
	}
	var err error
	if in.Installation, err = s.grants.mark(ctx); err != nil {
		return nil, err
	}
	if in.HostCluster, err = s.grants.access(ctx); err != nil {
		return nil, err
	}
	start, err := in.Start(s.info.Capabilities.SeparateDocuments)
	if err != nil {
		return nil, err
	}
	start.PickUpPending = c.PickUpPending
	start.ChecksHealth = c.ChecksHealth && s.info.Capabilities.CheckHealth
	return start, nil
}
