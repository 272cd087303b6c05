package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// maxAnswerBytes bounds an answer about configuration or hooks, and a wake-up.
const maxAnswerBytes = 1 << 20

// ask makes a call of one question and one answer. Such a call has no heartbeats, so only ctx, the deadline, zero for
// none, and the plugin's health end it early.
func ask[Answer any](
	ctx context.Context, s *Session, deadline time.Time, question func(context.Context) (*Answer, error),
) (*Answer, error) {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	conversation := newConversation(nil)
	if err := s.begin(conversation); err != nil {
		return nil, err
	}
	defer s.calls.remove(conversation)
	answer, err := question(withTrace(ctx))
	if err != nil {
		return nil, s.translate(ctx, conversation, err)
	}
	return answer, nil
}

// Rendered are the desired objects of a deploy item, or Errors.
type Rendered struct {
	// Children have unique names, and are JSON objects with apiVersion and kind.
	Children []sdk.Child
	Errors   []hostside.Error
}

// Render returns the desired objects without applying them. It blocks until the answer, the end of ctx, or the deadline
// of the call. The error is as with Call.
func (s *Session) Render(ctx context.Context, c Call) (*Rendered, error) {
	out, err := ask(ctx, s, c.Deadline, func(ctx context.Context) (*deployerv1.RenderResponse, error) {
		start, err := s.startOf(ctx, c)
		if err != nil {
			return nil, err
		}
		return s.client.Render(ctx, &deployerv1.RenderRequest{Start: start})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.RenderResponse_Failed:
		return &Rendered{Errors: hostside.ReadErrors(outcome.Failed)}, nil
	case *deployerv1.RenderResponse_Children:
		children, err := hostside.ReadChildren(outcome.Children.GetChildren())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &Rendered{Children: children}, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Render says neither children nor failed", ErrProtocol)
	}
}

// Diff is a preview of a job, or Errors.
type Diff struct {
	// Changes have an object each, in the order of the job. Their actions are those of the sdk, and their states are JSON
	// objects or absent.
	Changes []sdk.Change
	Errors  []hostside.Error
}

// Diff returns a preview of a job. It needs Capabilities.Diff. It blocks until the answer, the end of ctx, or the
// deadline of the call. The error is as with Call.
func (s *Session) Diff(ctx context.Context, c Call) (*Diff, error) {
	out, err := ask(ctx, s, c.Deadline, func(ctx context.Context) (*deployerv1.DiffResponse, error) {
		start, err := s.startOf(ctx, c)
		if err != nil {
			return nil, err
		}
		return s.client.Diff(ctx, &deployerv1.DiffRequest{Start: start})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.DiffResponse_Failed:
		return &Diff{Errors: hostside.ReadErrors(outcome.Failed)}, nil
	case *deployerv1.DiffResponse_Changes:
		changes, err := hostside.ReadChanges(outcome.Changes.GetChanges())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &Diff{Changes: changes}, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Diff says neither changes nor failed", ErrProtocol)
	}
}

// Validate checks the provider configuration of an item, without Target and credentials. It needs
// Capabilities.Validate. It blocks until the answer, the end of ctx, or the deadline of the call. The error is as with
// Call.
func (s *Session) Validate(ctx context.Context, c Call) (*hostside.Validation, error) {
	in := &hostside.Call{DeployItem: c.DeployItem, JobID: c.DeployItem.Status.JobID, Forced: c.Forced}
	if c.Context != nil {
		in.Context = lscontext.WithoutCredentials(c.Context)
	}
	out, err := ask(ctx, s, c.Deadline, func(ctx context.Context) (*deployerv1.ValidateResponse, error) {
		request, err := hostside.ValidateRequest(in, s.info.Capabilities.SeparateDocuments)
		if err != nil {
			return nil, err
		}
		return s.client.Validate(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	return hostside.ReadValidation(out), nil
}

// Holdings returns the plugin's holdings outside of the targets of deploy items. It needs Capabilities.Collect.
// Holdings with invalid names, namespaces or UIDs are ignored and logged. It blocks until the answer or the end of ctx.
// The error is an Error of the plugin or about the access to the host cluster, ErrNotRunning, ErrCrashed, ErrProtocol,
// or that of ctx, possibly wrapped.
func (s *Session) Holdings(ctx context.Context) ([]sdk.Holding, error) {
	out, err := ask(ctx, s, time.Time{}, func(ctx context.Context) (*deployerv1.HoldingsResponse, error) {
		cluster, err := s.grants.access(ctx)
		if err != nil {
			return nil, err
		}
		return s.client.Holdings(ctx, &deployerv1.HoldingsRequest{HostCluster: hostside.HostCluster(cluster)})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.HoldingsResponse_Failed:
		return nil, failure(outcome.Failed)
	case *deployerv1.HoldingsResponse_Held:
		holdings, strange := hostside.ReadHoldings(outcome.Held.GetHoldings())
		if strange > 0 {
			s.log.Warn("ignoring holdings with invalid deploy item references", "count", strange)
		}
		return holdings, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Holdings says neither held nor failed", ErrProtocol)
	}
}

// Collect has the plugin remove unused holdings. Capability and errors are as with Holdings.
func (s *Session) Collect(ctx context.Context, holdings []sdk.Holding) error {
	out, err := ask(ctx, s, time.Time{}, func(ctx context.Context) (*deployerv1.CollectResponse, error) {
		cluster, err := s.grants.access(ctx)
		if err != nil {
			return nil, err
		}
		return s.client.Collect(ctx, hostside.CollectRequest(cluster, holdings))
	})
	if err != nil {
		return err
	}
	if out.GetFailed() != nil {
		return failure(out.GetFailed())
	}
	return nil
}

// Metrics returns the plugin's own metrics, unchecked. It is no call for an item: a crash beside it does not count for
// another one.
func (s *Session) Metrics(ctx context.Context) ([]byte, error) {
	out, err := s.client.Metrics(ctx, &deployerv1.MetricsRequest{}, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	if err != nil {
		return nil, errors.New(hostside.Bounded(status.Convert(err).Message()))
	}
	return out.GetFamilies(), nil
}

// RunHooks runs the plugin's hook functions of a type and returns their outcomes in the order of registration. ctx
// needs a deadline. The error is ErrNotRunning, ErrCrashed, ErrProtocol, or that of ctx, possibly wrapped.
func (s *Session) RunHooks(ctx context.Context, call hostside.HookCall) ([]hostside.HookOutcome, error) {
	in, err := call.Request()
	if err != nil {
		return nil, err
	}
	out, err := ask(ctx, s, time.Time{}, func(ctx context.Context) (*deployerv1.RunHooksResponse, error) {
		return s.client.RunHooks(ctx, in, grpc.MaxCallRecvMsgSize(maxAnswerBytes))
	})
	if err != nil {
		return nil, err
	}
	outcomes, err := hostside.ReadHookOutcomes(out.GetOutcomes())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return outcomes, nil
}

// failure joins the errors of a plugin.
func failure(in *deployerv1.Failed) error {
	var errs []error
	for _, e := range hostside.ReadErrors(in) {
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}
