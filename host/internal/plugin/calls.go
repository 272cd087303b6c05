package plugin

import (
	"context"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
)

// Call makes one operation and blocks until its result. At the end of ctx it asks the plugin to stop, and cancels the
// call after Options.StopGrace; at the deadline of the call it cancels at once.
//
// The error is ErrNotRunning, ErrCrashed, ErrProtocol, the cause of ctx, context.DeadlineExceeded, or, without a call,
// an Error about the access to the host cluster; possibly wrapped. A failure of the deployer is an Outcome.
func (p *Plugin) Call(ctx context.Context, op Operation, c Call, observer Observer) (*Outcome, error) {
	s, err := p.current(ctx, c.Deadline)
	if err != nil {
		return nil, err
	}
	return s.Call(ctx, op, c, p.settings.StopGrace, observer)
}

// Render returns the desired objects without applying them. It blocks until the answer, the end of ctx, or the deadline
// of the call. The error is as with Call.
func (p *Plugin) Render(ctx context.Context, c Call) (*Rendered, error) {
	s, err := p.current(ctx, c.Deadline)
	if err != nil {
		return nil, err
	}
	return s.Render(ctx, c)
}

// Diff returns a preview of a job. It needs Capabilities.Diff. It blocks until the answer, the end of ctx, or the
// deadline of the call. The error is as with Call.
func (p *Plugin) Diff(ctx context.Context, c Call) (*Diff, error) {
	s, err := p.current(ctx, c.Deadline)
	if err != nil {
		return nil, err
	}
	return s.Diff(ctx, c)
}

// Validate checks the provider configuration of an item, without Target and credentials. It needs
// Capabilities.Validate. It blocks until the answer, the end of ctx, or the deadline of the call. The error is as with
// Call.
func (p *Plugin) Validate(ctx context.Context, c Call) (*Validation, error) {
	s, err := p.current(ctx, c.Deadline)
	if err != nil {
		return nil, err
	}
	return s.Validate(ctx, c)
}

// Holdings returns the plugin's holdings outside of the targets of deploy items. It needs Capabilities.Collect.
// Holdings with invalid names, namespaces or UIDs are ignored and logged. It blocks until the answer or the end of ctx.
// The error is an Error of the plugin or about the access to the host cluster, ErrNotRunning, ErrCrashed, ErrProtocol,
// or that of ctx, possibly wrapped.
func (p *Plugin) Holdings(ctx context.Context) ([]sdk.Holding, error) {
	s, err := p.current(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	return s.Holdings(ctx)
}

// Collect has the plugin remove unused holdings. Capability and errors are as with Holdings.
func (p *Plugin) Collect(ctx context.Context, holdings []sdk.Holding) error {
	s, err := p.current(ctx, time.Time{})
	if err != nil {
		return err
	}
	return s.Collect(ctx, holdings)
}

// Metrics returns the plugin's own metrics, unchecked, in the text format of Prometheus. It needs Capabilities.Metrics.
// The error is ErrNotRunning, also in Standby, or any other.
func (p *Plugin) Metrics(ctx context.Context) ([]byte, error) {
	s, err := p.running()
	if err != nil {
		return nil, err
	}
	return s.Metrics(ctx)
}

// RunHooks runs the plugin's hook functions of a type and returns their outcomes in the order of registration; a type
// without functions costs no call. ctx needs a deadline. The error is ErrNotRunning, ErrCrashed, ErrProtocol, or that
// of ctx, possibly wrapped.
func (p *Plugin) RunHooks(ctx context.Context, call HookCall) ([]HookOutcome, error) {
	if info := p.Info(); info.Name != "" && !slices.Contains(info.Capabilities.HookTypes, string(call.Type)) {
		return nil, nil
	}
	s, err := p.current(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	return s.RunHooks(ctx, call)
}
