package telemetry

import (
	"context"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Plugin is a *plugin.Plugin.
type Plugin interface {
	Name() string
	Call(ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer) (*plugin.Outcome, error)
	Render(ctx context.Context, c plugin.Call) (*plugin.Rendered, error)
	Validate(ctx context.Context, c plugin.Call) (*plugin.Validation, error)
}

// Call calls a plugin for an operation, and reports the call.
func Call(
	ctx context.Context, p Plugin, operation plugin.Operation, c plugin.Call, o plugin.Observer,
) (*plugin.Outcome, error) {
	ctx, end := Begin(ctx, Work{Of: KindCall, Name: string(operation), By: p.Name()})
	outcome, err := p.Call(ctx, operation, c, o)
	switch {
	case err != nil:
		end(ResultOf(ctx, err))
	case outcome.Succeeded != nil:
		end(ResultDone)
	case outcome.InProgress != nil:
		end(ResultInProgress)
	default:
		end(ResultFailed)
	}
	return outcome, err
}

// Render asks a plugin for the desired objects, and reports the call.
func Render(ctx context.Context, p Plugin, c plugin.Call) (*plugin.Rendered, error) {
	ctx, end := Begin(ctx, Work{Of: KindCall, Name: "Render", By: p.Name()})
	rendered, err := p.Render(ctx, c)
	switch {
	case err != nil:
		end(ResultOf(ctx, err))
	case len(rendered.Errors) > 0:
		end(ResultFailed)
	default:
		end(ResultDone)
	}
	return rendered, err
}

// Validate asks a plugin about the provider configuration of an item, and reports the call.
func Validate(ctx context.Context, p Plugin, c plugin.Call) (*plugin.Validation, error) {
	ctx, end := Begin(ctx, Work{Of: KindCall, Name: "Validate", By: p.Name()})
	found, err := p.Validate(ctx, c)
	switch {
	case err != nil:
		end(ResultOf(ctx, err))
	case len(found.Errors) > 0:
		end(ResultFailed)
	default:
		end(ResultDone)
	}
	return found, err
}

// HTTPHook is a *httphook.Hook.
type HTTPHook interface {
	Registration() string
}

// CallHTTPHook makes a call of an HTTP hook, and reports it.
func CallHTTPHook(
	ctx context.Context, h HTTPHook, phase v1alpha1.HookCapability, call func(context.Context) error,
) error {
	ctx, end := Begin(ctx, Work{Of: KindHTTPHook, Name: string(phase), By: h.Registration()})
	err := call(ctx)
	switch {
	case err == nil:
		end(ResultDone)
	case ctx.Err() != nil:
		end(ResultCanceled)
	default:
		end(ResultFailed)
	}
	return err
}
