package conformance

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// capability is an optional part of the protocol and a call of it that changes nothing.
type capability struct {
	name    string
	claimed bool
	try     func(context.Context) error
}

// capabilities are those that a single call tells about. Configure and Watch have checks of their own.
func (e *examination) capabilities() []capability {
	claimed, service := e.info.GetCapabilities(), e.plugin.service
	return []capability{
		{"reconcile", noDeployer(e) == "", e.withoutStart(e.plugin.service.Reconcile)},
		{"delete", noDeployer(e) == "", e.withoutStart(e.plugin.service.Delete)},
		{"abort", claimed.GetAbort(), e.withoutStart(e.plugin.service.Abort)},
		{"force_reconcile", claimed.GetForceReconcile(), e.withoutStart(e.plugin.service.ForceReconcile)},
		{"render", claimed.GetRender(), func(ctx context.Context) error {
			_, err := service.Render(ctx, &deployerv1.RenderRequest{})
			return err
		}},
		{"diff", claimed.GetDiff(), func(ctx context.Context) error {
			_, err := service.Diff(ctx, &deployerv1.DiffRequest{})
			return err
		}},
		{"collect (Holdings)", claimed.GetCollect(), func(ctx context.Context) error {
			_, err := service.Holdings(ctx, &deployerv1.HoldingsRequest{})
			return err
		}},
		{"collect (Collect)", claimed.GetCollect(), func(ctx context.Context) error {
			_, err := service.Collect(ctx, &deployerv1.CollectRequest{})
			return err
		}},
		{"validate", claimed.GetValidate(), func(ctx context.Context) error {
			_, err := service.Validate(ctx, &deployerv1.ValidateRequest{
				DeployItemType: string(e.firstType()), ProviderConfiguration: []byte("{}"),
			})
			return err
		}},
	}
}

// withoutStart opens a stream that a plugin with the capability refuses for want of a start message.
func (e *examination) withoutStart(open opener) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := say(ctx, open, acknowledgement(1, ""))
		return err
	}
}

func (e *examination) checkCapabilitiesTrue(ctx context.Context) {
	e.pass(RuleCapabilitiesTrue)
	for _, c := range e.capabilities() {
		if !c.claimed {
			continue
		}
		if err := e.bounded(ctx, c.try); status.Code(err) == codes.Unimplemented {
			e.breaks(RuleCapabilitiesTrue, "%s is claimed, but the call answers: %v", c.name, err)
		}
	}
}

func (e *examination) checkCapabilitiesClaimed(ctx context.Context) {
	e.pass(RuleCapabilitiesClaimed)
	unclaimed := slices.DeleteFunc(e.capabilities(), func(c capability) bool { return c.claimed })
	if !e.info.GetCapabilities().GetWatch() {
		unclaimed = append(unclaimed, capability{name: "watch", try: e.watchOnce})
	}
	for _, c := range unclaimed {
		if err := e.bounded(ctx, c.try); status.Code(err) != codes.Unimplemented {
			e.breaks(RuleCapabilitiesClaimed, "%s is not claimed; expected Unimplemented, but the call ends with: %s", c.name, ending(err))
		}
	}
	if e.info.GetCapabilities().GetConfigure() {
		return
	}
	problems, err := e.configure(ctx, []byte(`{"`+unknownField+`":true}`))
	if code := status.Code(err); code != codes.InvalidArgument && code != codes.Unimplemented && len(problems) == 0 {
		e.breaks(RuleCapabilitiesClaimed, "configure is not claimed; expected InvalidArgument to a document, but the call ends with: %s", ending(err))
	}
}

func (e *examination) watchOnce(ctx context.Context) error {
	stream, err := e.plugin.service.Watch(ctx, &deployerv1.WatchRequest{})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

// bounded carries out a call that must return soon.
func (e *examination) bounded(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.limits.probe)
	defer cancel()
	return call(ctx)
}

func ending(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// watching is a stream of wake-ups that is open while the plugin is checked.
type watching struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // valid once ended is closed
}

func (e *examination) startWatching(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watching{cancel: cancel, ended: make(chan struct{})}
	e.watching = w
	go func() { // ends with ctx
		defer close(w.ended)
		stream, err := e.plugin.service.Watch(ctx, &deployerv1.WatchRequest{})
		for err == nil {
			_, err = stream.Recv()
		}
		w.err = err
	}()
}

func (e *examination) checkWatchStaysOpen(context.Context) {
	select {
	case <-e.watching.ended:
		if status.Code(e.watching.err) == codes.Unimplemented {
			e.breaks(RuleCapabilitiesTrue, "watch is claimed, but Watch answers: %v", e.watching.err)
			return
		}
		e.breaks(RuleWatchStaysOpen, "the plugin ended the stream: %v", e.watching.err)
	case <-time.After(e.limits.settle):
	}
	e.pass(RuleWatchStaysOpen)
}

func (e *examination) stopWatching() {
	if e.watching != nil {
		e.watching.cancel()
		<-e.watching.ended
	}
}
